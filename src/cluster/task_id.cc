#include "strata/cluster/cluster_spec.h"

#include "strata/core/device_name.h"
#include "strata/core/error.h"

namespace strata::cluster {
namespace {

[[noreturn]] void fail(std::string_view text) {
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[cluster] TaskId::parse: got \"", text,
                      "\"; expected a task such as /job:worker/task:1 or worker:1"));
}

}  // namespace

TaskId TaskId::parse(std::string_view text) {
  const size_t colon = text.find(':');
  const bool is_short = !text.starts_with('/') && colon != 0 && colon != std::string_view::npos;
  DeviceName name;
  try {
    name = DeviceName::parse(
        is_short ? str_cat("/job:", text.substr(0, colon), "/task:", text.substr(colon + 1))
                 : std::string(text));
  } catch (const Error&) {
    fail(text);
  }
  if (!name.job || !name.task || name.type) fail(text);
  return {.job = *name.job, .index = *name.task};
}

std::string TaskId::to_string() const { return str_cat("/job:", job, "/task:", index); }

std::string TaskId::short_name() const { return str_cat(job, ":", index); }

}  // namespace strata::cluster
