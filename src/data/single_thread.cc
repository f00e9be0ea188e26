#include "data/single_thread.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace strata::data::detail {
namespace {

// Of the libraries that libtorch brought along; null where it was built without them.
template <class Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

struct ThreadNumbers {
  void (*omp_set)(int) = find<void(int)>("omp_set_num_threads");
  int (*omp_get)() = find<int()>("omp_get_max_threads");
  int (*mkl_set)(int) = find<int(int)>("MKL_Set_Num_Threads_Local");  // gives the number before
};

const ThreadNumbers& thread_numbers() {
  static const ThreadNumbers numbers;
  return numbers;
}

}  // namespace

void use_single_thread() {
  at::get_num_threads();  // libtorch sets this thread's number at its first use: get that over with
  const ThreadNumbers& numbers = thread_numbers();
  if (numbers.omp_set != nullptr) numbers.omp_set(1);
  if (numbers.mkl_set != nullptr) numbers.mkl_set(1);
}

SingleThreadScope::SingleThreadScope() {
  at::get_num_threads();
  const ThreadNumbers& numbers = thread_numbers();
  omp_before_ = numbers.omp_get != nullptr ? numbers.omp_get() : 1;
  if (numbers.omp_set != nullptr) numbers.omp_set(1);
  mkl_before_ = numbers.mkl_set != nullptr ? numbers.mkl_set(1) : 0;
}

SingleThreadScope::~SingleThreadScope() {
  const ThreadNumbers& numbers = thread_numbers();
  if (numbers.omp_set != nullptr) numbers.omp_set(omp_before_);
  if (numbers.mkl_set != nullptr) numbers.mkl_set(mkl_before_);
}

}  // namespace strata::data::detail
