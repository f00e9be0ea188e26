#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/mutex.h"
#include "pjrt/arguments.h"

namespace strata::pjrt {
namespace {

constexpr const char* kHowToGetOne =
    "scripts/install_pjrt.sh fetches one that compiles for CPUs; machines with TPUs have libtpu.so "
    "(pip "
    "install libtpu)";

const PJRT_Api* api_of(const std::string& path) {
  STRATA_CHECK(std::filesystem::exists(path), kNotFound, "[pjrt] open: ", path,
               " does not exist; expected the file of a PJRT plugin; ", kHowToGetOne);
  // RTLD_LOCAL: a plugin brings its own copies of libraries that the program has, too.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  STRATA_CHECK(library != nullptr, kFailedPrecondition, "[pjrt] open: ", path,
               " cannot be loaded: ", ::dlerror(), "; ",
               kHowToGetOne);  // NOLINT(concurrency-mt-unsafe)
  using GetApi = const PJRT_Api* (*)();
  const auto get_api = reinterpret_cast<GetApi>(::dlsym(library, "GetPjrtApi"));
  STRATA_CHECK(get_api != nullptr, kFailedPrecondition, "[pjrt] open: ", path,
               " has no GetPjrtApi; expected a PJRT plugin; ", kHowToGetOne);
  const PJRT_Api* const api = get_api();
  STRATA_CHECK(api != nullptr && api->pjrt_api_version.major_version == PJRT_API_MAJOR,
               kFailedPrecondition, "[pjrt] open: ", path, " has version ",
               api == nullptr ? -1 : api->pjrt_api_version.major_version,
               " of the C interface; expected ", PJRT_API_MAJOR, "; take a plugin of that version");
  return api;
}

struct OpenPlugins {
  Mutex mutex;
  std::map<std::string, std::shared_ptr<const Plugin>> by_path STRATA_GUARDED_BY(mutex);
};

}  // namespace

std::optional<std::string> Plugin::path_from_environment() {
  const char* const path = std::getenv(kPluginVariable);  // NOLINT(concurrency-mt-unsafe)
  if (path == nullptr || *path == '\0') return std::nullopt;
  return path;
}

std::shared_ptr<const Plugin> Plugin::open(const std::string& given) {
  const std::string path = given.empty() ? path_from_environment().value_or("") : given;
  STRATA_CHECK(!path.empty(), kNotFound, "[pjrt] open: got no path, and ", kPluginVariable,
               " is not set; expected the file of a PJRT plugin; ", kHowToGetOne);
  static OpenPlugins open_plugins;
  const MutexLock lock(open_plugins.mutex);
  std::shared_ptr<const Plugin>& plugin = open_plugins.by_path[path];
  if (plugin == nullptr) {
    std::shared_ptr<const Plugin> opened(new Plugin(path, api_of(path)));
    auto arguments = STRATA_PJRT_ARGUMENTS(Plugin_Initialize);
    opened->check(opened->api().PJRT_Plugin_Initialize(&arguments), "initialize");
    plugin = std::move(opened);
  }
  return plugin;
}

std::string Plugin::version() const {
  return str_cat(api_->pjrt_api_version.major_version, ".", api_->pjrt_api_version.minor_version);
}

void Plugin::check(PJRT_Error* error, std::string_view what) const {
  if (error == nullptr) return;
  auto message = STRATA_PJRT_ARGUMENTS(Error_Message);
  message.error = error;
  api_->PJRT_Error_Message(&message);
  auto code = STRATA_PJRT_ARGUMENTS(Error_GetCode);
  code.error = error;
  PJRT_Error* const none = api_->PJRT_Error_GetCode(&code);
  // Its codes are TensorFlow's canonical ones, as ErrorCode's are.
  const auto number = none == nullptr ? code.code : PJRT_Error_Code_UNKNOWN;
  const std::string text =
      str_cat("[pjrt] ", what, ": ", std::string_view(message.message, message.message_size));
  for (PJRT_Error* each : {error, none}) {
    auto destroy = STRATA_PJRT_ARGUMENTS(Error_Destroy);
    destroy.error = each;
    if (each != nullptr) api_->PJRT_Error_Destroy(&destroy);
  }
  throw Error(static_cast<ErrorCode>(number), text);
}

}  // namespace strata::pjrt
