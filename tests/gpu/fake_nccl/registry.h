#pragma once

#include <memory>
#include <string>

#include "gpu/fake_nccl/communicator.h"

namespace strata::test::fake_nccl {

/// The handles that programs have. None is given twice, so that one of a communicator that has been destroyed is an error.
ncclComm_t add_communicator(std::shared_ptr<Communicator> communicator);
std::shared_ptr<Communicator> find_communicator(
    ncclComm_t handle);  ///< Null: no such communicator.
std::shared_ptr<Communicator> remove_communicator(ncclComm_t handle);
int count_communicators();

/// Of this process.
void set_last_error(const std::string& text);
std::string last_error();

}  // namespace strata::test::fake_nccl
