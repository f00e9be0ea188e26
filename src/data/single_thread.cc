#include "data/single_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace strata::data::detail {
namespace {

using SetNumThreads = void (*)(int);

// Of the libraries that libtorch brought along; null where it was built without them.
void call_if_there(const char* name) {
  if (const auto set = reinterpret_cast<SetNumThreads>(dlsym(RTLD_DEFAULT, name))) set(1);
}

}  // namespace

void use_single_thread() {
  at::get_num_threads();  // libtorch sets this thread's number at its first use: get that over with
  call_if_there("omp_set_num_threads");
  call_if_there("MKL_Set_Num_Threads_Local");
}

}  // namespace strata::data::detail
