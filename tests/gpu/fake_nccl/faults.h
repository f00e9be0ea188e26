#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/fake_nccl/failure.h"

namespace strata::test::fake_nccl {

/// One entry of STRATA_FAKE_NCCL (fake_nccl.h has the list).
struct Fault {
  std::string kind;
  int rank = -1;      ///< -1: every rank.
  uint64_t call = 0;  ///< From 1; 0: none given.
  uint64_t comm = 0;  ///< From 1; 0: every communicator.
  int64_t value = 0;  ///< Of `delay_us=50`.
};

/// The faults that a communicator has, found out when it is made.
class Faults {
 public:
  /// Those in force now for the process's next communicator, which this call counts.
  /// @throws Failure  ncclInvalidArgument: the text cannot be read.
  static Faults of_next_communicator();

  bool has(const std::string& kind, int rank, uint64_t call = 0) const;
  int64_t value(const std::string& kind, int64_t otherwise) const;

 private:
  uint64_t comm_ = 0;
  std::vector<Fault> all_;
};

/// What takes the place of the environment; null ends it. Communicators are counted anew. @throws Failure  ncclInvalidArgument.
void set_faults(const char* text);

/// What ncclGetVersion says.
int version_to_report();

}  // namespace strata::test::fake_nccl
