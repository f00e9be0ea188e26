#pragma once

namespace strata::data::detail {

/// Makes libtorch's operators run on the calling thread alone, for this thread only, so that input
/// does not take cores from training. at::set_num_threads would change other threads' default too.
void use_single_thread();

/// The same during its lifetime, for a thread that does others' work for a while: so an element's
/// bits do not depend on who makes it. Cost: 50 ns.
class SingleThreadScope {
 public:
  SingleThreadScope();
  ~SingleThreadScope();
  SingleThreadScope(const SingleThreadScope&) = delete;
  SingleThreadScope& operator=(const SingleThreadScope&) = delete;

 private:
  int omp_before_;
  int mkl_before_;
};

}  // namespace strata::data::detail
