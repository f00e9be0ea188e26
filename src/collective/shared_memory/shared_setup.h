#pragma once

#include <functional>
#include <string>
#include <vector>

#include "collective/communicator.h"
#include "collective/shared_memory/descriptor_exchange.h"
#include "collective/shared_memory/shared_memory_communicator.h"
#include "wire/shared_memory.h"

namespace strata::collective {

/// The common objects of the ranks of one host, after setup.
struct SharedSetup {
  std::vector<std::string> names;  ///< by rank, for messages
  DescriptorExchange descriptors;  ///< for buffers
  wire::FileDescriptor file;       ///< SharedHeader and channels
  wire::SharedMapping header;
};

/// Every rank calls it. @throws Error  as SharedMemoryCommunicator: the same on all ranks.
SharedSetup set_up_shared_memory(Communicator& bootstrap, const SharedMemoryOptions& options);

}  // namespace strata::collective
