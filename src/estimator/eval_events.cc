#include "estimator/eval_events.h"

#include "strata/core/file_system.h"
#include "strata/summary/event_reader.h"

namespace strata::estimator::detail {

std::map<int64_t, std::map<std::string, double>> evaluations_in(const std::string& folder) {
  std::map<int64_t, std::map<std::string, double>> found;
  if (!file_system_of(folder).info(folder)) return found;
  for (const summary::Event& event : summary::read_run(folder)) {
    for (const summary::SummaryValue& value : event.values) {
      if (value.tensor.numbers.size() == 1) {
        found[event.step][value.tag] = value.tensor.numbers[0];
      }
    }
  }
  return found;
}

}  // namespace strata::estimator::detail
