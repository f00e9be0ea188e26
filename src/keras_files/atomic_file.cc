#include "keras_files/atomic_file.h"

#include "core/atomic_file.h"

namespace strata::keras_files {

void write_atomically(const std::string& path, const std::function<void(const Sink&)>& write) {
  strata::detail::write_atomically(path, [&](WritableFile& file) {
    write([&](std::span<const std::byte> bytes) { file.append(bytes); });
  });
}

}  // namespace strata::keras_files
