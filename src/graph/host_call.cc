#include "graph/host_call.h"

#include <atomic>
#include <string>
#include <utility>

#include "graph/tracer.h"

namespace strata::graph {
namespace {

thread_local uint64_t this_threads_place = 0;

}  // namespace

bool tracing() { return Tracer::active(); }

std::vector<at::Tensor> call_host(std::string_view name, const std::vector<at::Tensor>& inputs,
                                  const std::vector<HostResult>& results,
                                  const HostFunction& function, const std::vector<double>& numbers,
                                  HostInputs held, std::weak_ptr<HostSubject> subject) {
  if (!tracing()) return function(inputs);
  return Tracer::current().record_host(name, inputs, results, function, numbers, held,
                                       std::move(subject));
}

void refuse_in_trace(std::string_view what, std::string_view hint) {
  if (tracing()) Tracer::current().refuse(std::string(what), std::string(hint));
}

bool others_may_change() { return tracing() && Tracer::current().others_may_change(); }

uint64_t place() { return this_threads_place; }

uint64_t new_place() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

PlaceGuard::PlaceGuard(uint64_t place) : before_(this_threads_place) { this_threads_place = place; }
PlaceGuard::~PlaceGuard() { this_threads_place = before_; }

}  // namespace strata::graph
