#include "collective/nccl/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "strata/core/error.h"

namespace strata::collective::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";
constexpr int kOldestVersion = 21800;  // has ncclCommSplit

void* open_file(const std::string& path) {
  if (!path.empty()) return ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  // libtorch's: a second copy would not know its communicators, nor share its memory.
  void* const loaded = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return loaded != nullptr ? loaded : ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
}

// Fills `function`; `missing` gets the first name that the library lacks.
template <typename Function>
void look_up(void* file, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(::dlsym(file, name));
  if (function == nullptr && missing.empty()) missing = name;
}

// "2.18.5"
std::string version_text(int version) {
  return str_cat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

struct Found {
  Library library{};
  std::string why_not;
  bool usable;

  Found() {
    const char* const path = std::getenv(kLibraryVariable);  // NOLINT(concurrency-mt-unsafe)
    usable = open(path == nullptr ? "" : path, library, why_not);
  }
};

const Found& found() {
  static const Found once;
  return once;
}

}  // namespace

bool open(const std::string& path, Library& library, std::string& why_not) {
  void* const file = open_file(path);
  if (file == nullptr) {
    why_not = ::dlerror();  // NOLINT(concurrency-mt-unsafe)
    return false;
  }
  std::string missing;
  look_up(file, "ncclGetVersion", library.get_version, missing);
  look_up(file, "ncclGetUniqueId", library.get_unique_id, missing);
  look_up(file, "ncclCommInitRankConfig", library.comm_init_rank_config, missing);
  look_up(file, "ncclCommInitAll", library.comm_init_all, missing);
  look_up(file, "ncclCommSplit", library.comm_split, missing);
  look_up(file, "ncclCommFinalize", library.comm_finalize, missing);
  look_up(file, "ncclCommDestroy", library.comm_destroy, missing);
  look_up(file, "ncclCommAbort", library.comm_abort, missing);
  look_up(file, "ncclCommGetAsyncError", library.comm_get_async_error, missing);
  look_up(file, "ncclCommCount", library.comm_count, missing);
  look_up(file, "ncclCommUserRank", library.comm_user_rank, missing);
  look_up(file, "ncclGetErrorString", library.get_error_string, missing);
  look_up(file, "ncclGetLastError", library.get_last_error, missing);
  look_up(file, "ncclGroupStart", library.group_start, missing);
  look_up(file, "ncclGroupEnd", library.group_end, missing);
  look_up(file, "ncclSend", library.send, missing);
  look_up(file, "ncclRecv", library.recv, missing);
  look_up(file, "ncclAllReduce", library.all_reduce, missing);
  look_up(file, "ncclReduce", library.reduce, missing);
  look_up(file, "ncclBroadcast", library.broadcast, missing);
  look_up(file, "ncclReduceScatter", library.reduce_scatter, missing);
  look_up(file, "ncclAllGather", library.all_gather, missing);
  // Before the functions: what is old lacks some, and its age says more.
  if (library.get_version == nullptr || library.get_version(&library.version) != ncclSuccess) {
    why_not = str_cat(path.empty() ? kName : path, " does not say its version: it is no NCCL");
    return false;
  }
  if (library.version < kOldestVersion) {
    why_not = str_cat(path.empty() ? kName : path, " is NCCL ", version_text(library.version),
                      ", and strata needs ", version_text(kOldestVersion), " or later");
    return false;
  }
  if (!missing.empty()) {
    why_not = str_cat(path.empty() ? kName : path, " has no ", missing);
    return false;
  }
  return true;
}

const Library* find(std::string* why_not) {
  if (found().usable) return &found().library;
  if (why_not != nullptr) *why_not = found().why_not;
  return nullptr;
}

const Library& require(std::string_view caller) {
  std::string why_not;
  const Library* const library = find(&why_not);
  STRATA_CHECK(library != nullptr, kUnimplemented, "[", caller, "] NCCL is missing: ", why_not,
               "; install PyTorch with CUDA, which brings it (pip install torch), or set ",
               kLibraryVariable, "=PATH to the file of NCCL's library");
  return *library;
}

}  // namespace strata::collective::nccl
