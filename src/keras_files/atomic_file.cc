#include "keras_files/atomic_file.h"

#include <unistd.h>

#include <atomic>

#include "core/atomic_file.h"
#include "strata/core/str_cat.h"

namespace strata::keras_files {

void write_atomically(const std::string& path, const std::function<void(const Sink&)>& write) {
  static std::atomic<uint64_t> counter = 0;
  const auto [folder, name] = split_path(path);
  const std::string temporary =
      join_path(folder, str_cat(".tmp-", ::getpid(), '-', counter++, '@', name));
  strata::detail::write_atomically(path, temporary, [&](WritableFile& file) {
    write([&](std::span<const std::byte> bytes) { file.append(bytes); });
  });
}

}  // namespace strata::keras_files
