#include "strata/core/device_name.h"
#include "strata/core/error.h"
#include "wire/tls/certificates.h"

namespace strata::wire {

std::string certificate_name(std::string_view task) {
  const auto wrong = [&](std::string_view why) {
    return str_cat("[wire] certificate: got task \"", task, "\"", why,
                   "; expected a name such as /job:worker/task:1");
  };
  DeviceName name;
  try {
    name = DeviceName::parse(task);
  } catch (const Error&) {
    strata::detail::throw_error(ErrorCode::kInvalidArgument, wrong(""));
  }
  STRATA_CHECK(name.job && name.task && !name.type, kInvalidArgument, wrong(""));
  return str_cat(*name.job, "-", *name.task, ".strata");
}

}  // namespace strata::wire
