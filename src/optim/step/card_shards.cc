#include "optim/step/card_shards.h"

#include <algorithm>
#include <utility>

#include "strata/core/str_cat.h"

namespace strata::optimizers {

using tensor::StreamWait;

bool operator==(const CardShards& a, const CardShards& b) {
  return a.num_replicas == b.num_replicas &&
         std::ranges::equal(a.buckets, b.buckets, [](const auto& one, const auto& other) {
           return one.begin == other.begin && one.end == other.end;
         });
}

ShardGatherer::ShardGatherer(std::shared_ptr<collective::CardCommunicator> communicator)
    : communicator_(std::move(communicator)),
      written_(communicator_->devices().size()),
      gathered_(communicator_->devices().size()) {}

void ShardGatherer::written(int local) {
  const auto index = static_cast<size_t>(local);
  written_[index].record(tensor::current_stream(communicator_->devices()[index]));
}

void ShardGatherer::gather(const CardShards& shards, const std::vector<tensor::Arena>& memory,
                           const std::string& name) {
  for (size_t local = 0; local < written_.size(); ++local) {
    written_[local].block(StreamWait::kGatherForUpdate, communicator_->streams()[local]);
  }
  const auto mark_end = [&] {
    for (size_t local = 0; local < gathered_.size(); ++local) {
      gathered_[local].record(communicator_->streams()[local]);
    }
  };
  try {
    for (size_t b = 0; b < shards.buckets.size(); ++b) {
      const collective::Range& bucket = shards.buckets[b];
      std::vector<at::Tensor> values;
      for (const tensor::Arena& arena : memory) {
        values.push_back(arena.flat().narrow(0, bucket.begin, bucket.size()));
      }
      communicator_->all_gather_parts(
          values, str_cat(name, ", bucket ", b + 1, " of ", shards.buckets.size()));
    }
  } catch (...) {  // what some cards have enqueued still uses the memory
    mark_end();
    throw;
  }
  mark_end();
}

void ShardGatherer::wait(int local) const {
  const auto index = static_cast<size_t>(local);
  gathered_[index].block(StreamWait::kStepForGather,
                         tensor::current_stream(communicator_->devices()[index]));
}

}  // namespace strata::optimizers
