#include "core/memory_limit.h"

#include <unistd.h>

namespace strata::detail {
namespace {

thread_local size_t of_this_thread = 0;  // 0: the machine's

}  // namespace

size_t memory_limit() {
  static const size_t of_machine =
      static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return of_this_thread != 0 ? of_this_thread : of_machine;
}

ScopedMemoryLimit::ScopedMemoryLimit(size_t bytes) { of_this_thread = bytes; }
ScopedMemoryLimit::~ScopedMemoryLimit() { of_this_thread = 0; }

}  // namespace strata::detail
