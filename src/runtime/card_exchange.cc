#include "runtime/card_exchange.h"

#include <ATen/ops/empty.h>

#include <string>
#include <vector>

#include "collective/cards/card_communicator.h"
#include "runtime/replica_group.h"
#include "strata/core/error.h"
#include "strata/runtime/replica_context.h"
#include "tensor/stream_event.h"

namespace strata::detail {
namespace {

using collective::CardCommunicator;
using tensor::StreamEvent;
using tensor::StreamWait;

/// Apart from those of the same call through the host.
constexpr uint64_t kKeyOfCards = uint64_t{1} << 40;

/// What a replica brings, and where it goes on.
struct CardVisit {
  at::Tensor value;
  at::Tensor result;  // for a gather
  c10::Stream stream;
};

void check_equal_values(const ReplicaGroup& group, std::string_view call,
                        const std::vector<at::Tensor>& values) {
  for (size_t i = 1; i < values.size(); ++i) {
    STRATA_CHECK(values[i].sizes() == values[0].sizes() &&
                     values[i].scalar_type() == values[0].scalar_type(),
                 kInvalidArgument, "[replica_context] ", call, ": got ", values[0].scalar_type(),
                 " ", values[0].sizes(), " on replica ", group.replica_id(0), " and ",
                 values[i].scalar_type(), " ", values[i].sizes(), " on replica ",
                 group.replica_id(static_cast<int>(i)), "; expected equal shapes and dtypes");
  }
}

/// A call of the communicator with what all replicas of this process bring. Their streams wait for
/// it, also where it fails: what it has enqueued may still use the values.
template <typename Call>
void exchange(const ReplicaGroup& group, std::string_view name,
              const std::vector<CardVisit*>& visits, const Call& call) {
  std::vector<at::Tensor> values, results;
  for (const CardVisit* visit : visits) {
    values.push_back(visit->value);
    results.push_back(visit->result);
  }
  check_equal_values(group, name, values);
  for (at::Tensor& value : values) value = value.view({-1});
  CardCommunicator& cards = group.options().cards->for_values();
  for (size_t i = 0; i < visits.size(); ++i) {
    StreamEvent brought;
    brought.record(visits[i]->stream);
    brought.block(StreamWait::kSumForValues, cards.streams()[i]);
  }
  const auto go_on = [&] {
    for (size_t i = 0; i < visits.size(); ++i) {
      StreamEvent done;
      done.record(cards.streams()[i]);
      done.block(StreamWait::kReplicaForValues, visits[i]->stream);
    }
  };
  try {
    call(cards, values, results);
  } catch (...) {
    go_on();
    throw;
  }
  go_on();
}

/// By each replica.
template <typename Call>
void meet(const ReplicaContext& context, std::string_view name, uint64_t key, CardVisit& visit,
          const Call& call) {
  const auto together = [&](const std::vector<void*>& all) {
    std::vector<CardVisit*> visits;
    for (void* each : all) visits.push_back(static_cast<CardVisit*>(each));
    exchange(context.group(), name, visits, call);
  };
  context.synchronize(name, &visit, together, kKeyOfCards + key);
}

/// A value that a sum may replace.
CardVisit brought(const at::Tensor& value, ReduceOp op) {
  const bool float_of_integers = op == ReduceOp::kMean && !value.is_floating_point();
  return {.value = float_of_integers ? value.detach().to(at::kDouble).contiguous()
                                     : value.detach().clone(at::MemoryFormat::Contiguous),
          .result = {},
          .stream = tensor::current_stream(value.device())};
}

}  // namespace

bool has_cards_for(const ReplicaGroup& group, int local, const at::Tensor& value) {
  const auto& cards = group.options().cards;
  if (!cards || cards->num_replicas() != group.num_replicas_in_sync()) return false;
  if (value.layout() != at::kStrided ||
      value.device() != cards->devices()[static_cast<size_t>(local)]) {
    return false;
  }
  switch (value.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kChar:
    case at::kByte:
    case at::kInt:
    case at::kLong:
      return true;
    default:
      return false;
  }
}

at::Tensor all_reduce_on_cards(const ReplicaContext& context, ReduceOp op,
                               const at::Tensor& value) {
  CardVisit visit = brought(value, op);
  meet(context, "all_reduce", static_cast<uint64_t>(op) + 1, visit,
       [&](CardCommunicator& cards, const std::vector<at::Tensor>& values, const auto&) {
         cards.all_reduce(values, op, "all_reduce");
       });
  return visit.value;
}

at::Tensor all_gather_on_cards(const ReplicaContext& context, const at::Tensor& value,
                               std::string_view call) {
  CardVisit visit{
      .value = value.detach().contiguous(),
      .result = at::empty({context.num_replicas_in_sync(), value.numel()}, value.options()),
      .stream = tensor::current_stream(value.device())};
  meet(context, call, static_cast<uint64_t>(value.numel()), visit,
       [&](CardCommunicator& cards, const std::vector<at::Tensor>& values,
           const std::vector<at::Tensor>& results) {
         cards.all_gather(values, results, std::string(call));
       });
  return visit.result;
}

at::Tensor reduce_on_cards(const ReplicaGroup& group, const std::vector<at::Tensor>& own,
                           ReduceOp op, const std::string& what) {
  std::vector<CardVisit> visits;
  for (const at::Tensor& value : own) visits.push_back(brought(value, op));
  std::vector<CardVisit*> all;
  for (CardVisit& visit : visits) all.push_back(&visit);
  try {
    exchange(group, what, all,
             [&](CardCommunicator& cards, const std::vector<at::Tensor>& values, const auto&) {
               cards.all_reduce(values, op, what);
             });
  } catch (...) {  // in no run, which would tell the others
    group.fail_step(Status::from_current_exception());
    throw;
  }
  return visits[0].value;
}

}  // namespace strata::detail
