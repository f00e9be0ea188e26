#include "pjrt/compile_options.h"

namespace strata::pjrt {

std::string serialized_options(int64_t num_replicas, const std::vector<int64_t>& devices) {
  ComputationDevice assigned{.replica_devices = devices};
  for (int64_t i = 0; devices.empty() && i < num_replicas; ++i) {
    assigned.replica_devices.push_back(i);
  }
  const CompileOptionsMessage message{
      .build = {.num_replicas = num_replicas,
                .assignment = {.num_replicas = num_replicas, .partitions = {assigned}}}};
  std::string bytes;
  detail::write_message(message, bytes);
  return bytes;
}

}  // namespace strata::pjrt
