#include "keras_files/atomic_file.h"

#include <unistd.h>

#include <atomic>

#include "strata/core/error.h"

namespace strata::keras_files {

void write_atomically(const std::string& path, const std::function<void(const Sink&)>& write) {
  static std::atomic<uint64_t> counter = 0;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const std::string temporary =
      join_path(folder, str_cat(".tmp-", ::getpid(), '-', counter++, '@', name));
  const FileSystem& files = file_system_of(path);
  try {
    const auto file = files.create(temporary);
    write([&](std::span<const std::byte> bytes) { file->append(bytes); });
    file->sync();
    file->close();
    files.rename(temporary, path);
  } catch (...) {
    try {
      if (files.info(temporary)) files.remove(temporary);
    } catch (const Error&) {  // the first error is the one to tell of
    }
    throw;
  }
  files.sync_folder(folder);
}

}  // namespace strata::keras_files
