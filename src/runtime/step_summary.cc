#include "strata/runtime/step_summary.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "graph/host_call.h"
#include "strata/core/error.h"

namespace strata::summary {
namespace {

void check_one(std::string_view call, std::string_view what, const at::Tensor& tensor) {
  STRATA_CHECK(tensor.defined() && tensor.numel() == 1, kInvalidArgument, "[summary] ", call,
               ": got a ", what, " of ", tensor.defined() ? tensor.numel() : 0,
               " elements; expected one");
}

/// Now, or in a step that is traced as a node.
void write(const char* node, const at::Tensor& value, const at::Tensor& step,
           const std::function<void(const at::Tensor&, int64_t)>& now) {
  if (!graph::tracing()) return now(value.detach(), step.item<int64_t>());
  graph::call_host(node, {value.detach(), step}, {}, [now](const std::vector<at::Tensor>& given) {
    now(given[0], given[1].item<int64_t>());
    return std::vector<at::Tensor>();
  });
}

}  // namespace

void write_scalar(SummaryWriter& writer, std::string_view tag, const at::Tensor& value,
                  const at::Tensor& step) {
  check_one("write_scalar", "value", value);
  check_one("write_scalar", "step", step);
  write("strata::write_scalar", value, step,
        [&writer, tag = std::string(tag)](const at::Tensor& number, int64_t at_step) {
          writer.scalar(tag, number.item<double>(), at_step);
        });
}

void write_histogram(SummaryWriter& writer, std::string_view tag, const at::Tensor& values,
                     const at::Tensor& step, int64_t buckets) {
  check_one("write_histogram", "step", step);
  write("strata::write_histogram", values, step,
        [&writer, tag = std::string(tag), buckets](const at::Tensor& numbers, int64_t at_step) {
          const at::Tensor all = numbers.to(at::kCPU, at::kDouble).contiguous();
          const std::span<const double> span(all.const_data_ptr<double>(),
                                             static_cast<size_t>(all.numel()));
          writer.histogram(tag, span, at_step, buckets);
        });
}

}  // namespace strata::summary
