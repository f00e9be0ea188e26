#pragma once

#include "gpu/fake_nccl/exported_nccl.h"

namespace strata::test::fake_nccl {

/// Makes an identifier, and the thread of this process that its ranks meet at (rendezvous.h). The thread ends when the ranks are
/// connected, or with the process, and removes the identifier's folder.
/// @throws Failure  ncclSystemError.
ncclUniqueId make_unique_id();

}  // namespace strata::test::fake_nccl
