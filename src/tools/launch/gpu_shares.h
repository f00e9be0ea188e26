#pragma once

#include <string>
#include <vector>

namespace strata::tools {

/// The GPUs that programs started here would see, as CUDA_VISIBLE_DEVICES names them: those that it
/// lists, or all that the system has a device file for.
std::vector<std::string> visible_gpus();

/// Of each worker's environment, CUDA_VISIBLE_DEVICES: runs of neighbours, as equal as can be; all
/// empty where there are fewer GPUs than workers.
std::vector<std::string> share_gpus(const std::vector<std::string>& gpus, int workers);

}  // namespace strata::tools
