#include "strata/core/file_system.h"

#include <map>

#include "core/mutex.h"
#include "core/object_store/object_file_system.h"
#include "strata/core/error.h"

namespace strata {
namespace {

struct Registry {
  Mutex mutex;
  std::map<std::string, std::unique_ptr<const FileSystem>, std::less<>> by_scheme
      STRATA_GUARDED_BY(mutex);
};

Registry& registry() {
  static Registry* const all = new Registry;  // outlives every file
  return *all;
}

}  // namespace

PathLock FileSystem::try_lock(const std::string&) const { return {}; }

const FileSystem& file_system_of(std::string_view path) {
  const size_t end = path.find("://");
  if (end == std::string_view::npos) return local_file_system();
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  const auto found = all.by_scheme.find(path.substr(0, end));
  if (found != all.by_scheme.end()) return *found->second;
  const std::string scheme(path.substr(0, end));
  if (object_store::is_scheme(scheme)) {
    auto made = object_store::make_file_system(scheme);
    return *(all.by_scheme[scheme] = std::move(made));
  }
  std::string known = "s3://, gs://";
  for (const auto& [each, unused] : all.by_scheme) {
    if (!object_store::is_scheme(each)) known += str_cat(", ", each, "://");
  }
  throw Error(
      ErrorCode::kUnimplemented,
      str_cat("[core] file_system_of: got \"", path, "\"; expected a path of the disk, or one of ",
              known, "; call register_file_system first for others"));
}

void register_file_system(const std::string& scheme,
                          std::unique_ptr<const FileSystem> file_system) {
  Registry& all = registry();
  const MutexLock lock(all.mutex);
  const bool added = all.by_scheme.try_emplace(scheme, std::move(file_system)).second;
  STRATA_CHECK(added, kAlreadyExists, "[core] register_file_system: got scheme \"", scheme,
               "\" a second time; register each once");
}

std::string read_file(const std::string& path) {
  const std::unique_ptr<ReadableFile> file = file_system_of(path).open(path);
  std::string bytes;
  try {
    bytes.resize(file->size());
  } catch (const std::exception&) {  // bad_alloc, length_error
    throw Error(ErrorCode::kResourceExhausted,
                str_cat("[core] read: ", path, ": no memory for its ", file->size(), " bytes"));
  }
  bytes.resize(file->read(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

std::string join_path(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

std::pair<std::string, std::string> split_path(std::string_view path) {
  const size_t last = path.find_last_not_of('/');
  if (last == std::string_view::npos) return {"/", ""};
  const size_t slash = path.find_last_of('/', last);
  if (slash == std::string_view::npos) return {".", std::string(path.substr(0, last + 1))};
  return {slash == 0 ? "/" : std::string(path.substr(0, slash)),
          std::string(path.substr(slash + 1, last - slash))};
}

}  // namespace strata
