#include "core/atomic_file.h"

#include "strata/core/error.h"

namespace strata::detail {

void write_atomically(const std::string& path, const std::string& temporary,
                      const std::function<void(WritableFile&)>& write) {
  const FileSystem& files = file_system_of(path);
  try {
    const auto file = files.create(temporary);
    write(*file);
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
  files.sync_folder(split_path(path).first);
}

}  // namespace strata::detail
