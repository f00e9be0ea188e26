#include "strategies/recording_group.h"

#include "strata/core/str_cat.h"

namespace strata::detail {

void record_for(ReplicaGroupOptions& group, std::string_view kind, size_t num_replicas) {
  group.functions_only = true;
  group.replicas.pin_threads = false;
  for (size_t i = 0; i < num_replicas; ++i) {
    group.devices.push_back(
        {.name = str_cat("/job:localhost/replica:0/task:0/device:", kind, ":", i),
         .type = "CPU",
         .index = static_cast<int>(i),
         .physical = c10::Device(c10::kCPU)});
  }
}

}  // namespace strata::detail
