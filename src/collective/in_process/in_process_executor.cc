#include "collective/in_process/in_process_executor.h"

#include <algorithm>
#include <cstring>

#include <c10/util/SmallVector.h>

#include "collective/algorithms/tree_op.h"

namespace strata::collective {
namespace {

template <typename T>
void run_on_block(const Schedule& schedule, const Step& step, const std::vector<T*>& buffers,
                  int64_t begin, int64_t size, ReduceOp op) {
  const auto source = [&](int i) {
    return buffers[static_cast<size_t>(schedule.sources[static_cast<size_t>(i)])] + begin;
  };
  T* target = buffers[static_cast<size_t>(step.target)] + begin;
  if (step.kind == Step::Kind::kCopy) {
    std::memcpy(target, source(step.first), static_cast<size_t>(size) * sizeof(T));
    return;
  }
  c10::SmallVector<const T*, 16> sources;
  for (int i = step.first; i < step.last; ++i) sources.push_back(source(i));
  tensor::reduce_in_tree_order(tree_op(op), sources.data(), static_cast<int>(sources.size()), size,
                               target);
  if (op == ReduceOp::kMean) {
    const T count = static_cast<T>(sources.size());
    for (int64_t i = 0; i < size; ++i) target[i] /= count;
  }
}

}  // namespace

template <typename T>
void execute(const Schedule& schedule, int rank, const std::vector<T*>& buffers, int64_t size,
             ReduceOp op, const std::function<void()>& barrier) {
  constexpr int64_t kBlock = 8192 / sizeof(T);
  const std::vector<Step>& steps = schedule.ranks[static_cast<size_t>(rank)];
  for (size_t first = 0; first < steps.size();) {
    if (steps[first].kind == Step::Kind::kBarrier) {
      barrier();
      ++first;
      continue;
    }
    size_t last = first;
    while (last < steps.size() && steps[last].kind != Step::Kind::kBarrier &&
           steps[last].chunk == steps[first].chunk) {
      ++last;
    }
    const Range range = schedule.range(size, steps[first].chunk);
    for (int64_t begin = range.begin; begin < range.end; begin += kBlock) {
      const int64_t count = std::min(kBlock, range.end - begin);
      for (size_t i = first; i < last; ++i)
        run_on_block(schedule, steps[i], buffers, begin, count, op);
    }
    first = last;
  }
}

template void execute(const Schedule&, int, const std::vector<float*>&, int64_t, ReduceOp,
                      const std::function<void()>&);
template void execute(const Schedule&, int, const std::vector<double*>&, int64_t, ReduceOp,
                      const std::function<void()>&);
template void execute(const Schedule&, int, const std::vector<int32_t*>&, int64_t, ReduceOp,
                      const std::function<void()>&);
template void execute(const Schedule&, int, const std::vector<int64_t*>&, int64_t, ReduceOp,
                      const std::function<void()>&);

}  // namespace strata::collective
