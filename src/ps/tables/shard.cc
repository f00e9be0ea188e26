#include "ps/tables/shard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/checked_size.h"
#include "ps/tables/flat_shard.h"
#include "ps/tables/gradient_values.h"
#include "ps/tables/row_shard.h"
#include "strata/core/error.h"
#include "tensor/thread_setup.h"

namespace strata::ps {
namespace {

/// So many updates are never made from here on: the count cannot overflow.
constexpr int64_t kLastVersion = int64_t{1} << 62;

}  // namespace

std::unique_ptr<Shard> Shard::make(const TableSpec& spec, int server, int servers, BufferPool& pool,
                                   Done done) {
  check_table(spec, servers);
  const bool is_double = spec.dtype == c10::ScalarType::Double;
  if (spec.is_flat()) {
    if (is_double) return std::make_unique<FlatShard<double>>(spec, server, pool, std::move(done));
    return std::make_unique<FlatShard<float>>(spec, server, pool, std::move(done));
  }
  if (is_double) {
    return std::make_unique<RowShard<double>>(spec, server, servers, pool, std::move(done));
  }
  return std::make_unique<RowShard<float>>(spec, server, servers, pool, std::move(done));
}

Shard::Shard(TableSpec spec, BufferPool& pool, Done done)
    : spec_(std::move(spec)),
      rule_(tensor::make_rule(spec_.rule)),
      pool_(pool),
      done_(std::move(done)) {}

Shard::~Shard() = default;

void Shard::run(std::shared_ptr<TableCall> call) {
  const tensor::FlushDenormals flush;  // a replica's step would, and has these bits
  if (!given_up_.empty()) {
    return answer(call, {.code = ErrorCode::kUnavailable, .text = given_up_});
  }
  try {
    if (call->in_place()) inspect_in_place(*call);
    dispatch(call);
  } catch (...) {
    ++rejected_;
    answer_failed(call, Status::from_current_exception());
  }
}

/// Where memory is lacking even for the answer, its worker loses the connection, and so hears of
/// it.
void Shard::answer_failed(const CallPtr& call, const Status& status) noexcept {
  try {
    answer(call, {.code = status.code(),
                  .text = status.code() == ErrorCode::kResourceExhausted
                              ? str_cat("[ps] table '", spec_.name, "': ", status.message(),
                                        " at this server; nothing was changed")
                              : status.message()});
  } catch (...) {
    call->connection()->fail(Status(ErrorCode::kResourceExhausted, ""));
  }
}

PartSizes Shard::data_sizes_of(const Request& request) const {
  check_form(request);
  return do_data_sizes_of(request);
}

TableCall::Alignments Shard::alignments_of(const Request& request) const {
  const size_t element = c10::elementSize(spec_.dtype);
  const bool halves =
      request.encoding != PushEncoding::kFull &&
      (request.kind == RequestKind::kPush || request.kind == RequestKind::kPushRows);
  return {.data = halves ? sizeof(uint16_t) : element, .answer = element};
}

/// Every kind that a table takes is named here: one that is added must say for which form it is.
void Shard::check_form(const Request& request) const {
  switch (request.kind) {
    case RequestKind::kCreate:
    case RequestKind::kFill:
    case RequestKind::kRead:
    case RequestKind::kCounters:
      return;
    case RequestKind::kPull:
    case RequestKind::kPush:
      if (spec_.is_flat()) return check_push(request);
      break;
    case RequestKind::kPullRows:
    case RequestKind::kPushRows:
      if (!spec_.is_flat()) return check_push(request);
      break;
    default:
      throw Error(ErrorCode::kInvalidArgument,
                  str_cat("[ps] table '", spec_.name, "': got request ",
                          static_cast<uint32_t>(request.kind), ", which no table takes"));
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[ps] table '", spec_.name, "': got request ",
                      static_cast<uint32_t>(request.kind), ", which is for ",
                      spec_.is_flat() ? "tables of rows; this table is flat"
                                      : "flat tables; this table has rows"));
}

/// An encoding that is none would be counted as 16 bits an element and read as whole numbers.
void Shard::check_push(const Request& request) const {
  if (request.kind != RequestKind::kPush && request.kind != RequestKind::kPushRows) return;
  STRATA_CHECK(request.encoding <= PushEncoding::kBFloat16, kInvalidArgument, "[ps] table '",
               spec_.name, "': got encoding ", static_cast<uint32_t>(request.encoding),
               " of gradients; expected 0 to 2");
  const auto check = [&](const char* name, double value, double least) {
    STRATA_CHECK(std::isfinite(value) && value >= least, kInvalidArgument, "[ps] table '",
                 spec_.name, "': got a push with ", name, " ", value, "; expected a finite number",
                 least == 0 ? " of 0 or more" : "");
  };
  constexpr double kAny = std::numeric_limits<double>::lowest();
  check("learning_rate", request.learning_rate, kAny);
  check("weight_decay", request.weight_decay, kAny);
  check("clip_value", request.clip_value, 0);
  check("scale", request.scale, kAny);
  check("weight", request.weight, 0);
}

uint64_t Shard::state_bytes(const TableSpec& spec, int server, int servers) {
  check_table(spec, servers);
  int64_t elements = 0;
  if (spec.is_flat()) {
    for (const TablePart& part : spec.parts) {
      if (part.server == server) elements += part.end - part.begin;
    }
  } else {
    elements = (spec.rows - server + servers - 1) / servers * spec.width;
  }
  const auto copies = static_cast<int64_t>(1 + tensor::make_rule(spec.rule)->num_slots());
  const auto bytes = strata::detail::checked_product<int64_t>(
      {elements, static_cast<int64_t>(c10::elementSize(spec.dtype)), copies});
  STRATA_CHECK(bytes.has_value(), kInvalidArgument, "[ps] table '", spec.name, "': got ", elements,
               " elements with ", copies - 1, " slots, beyond 2^63 bytes; make the table smaller");
  return static_cast<uint64_t>(*bytes);
}

void Shard::dispatch(const CallPtr& call) {
  switch (call->request().kind) {
    case RequestKind::kCreate:
      return create(call);
    case RequestKind::kFill:
      return fill_once(call);
    case RequestKind::kPull:
    case RequestKind::kPullRows:
      check(*call);
      return pull(call);
    case RequestKind::kPush:
    case RequestKind::kPushRows:
      return push(call);
    case RequestKind::kRead:
      return answer_with_values(call);
    case RequestKind::kCounters:
      return answer(call, {.text = counters().dump()});
    case RequestKind::kLeave:
    case RequestKind::kMapSegment:
    case RequestKind::kUnmapSegment:
    case RequestKind::kBackup:
    case RequestKind::kReplaces:
    case RequestKind::kOpenMailbox:
      break;  // the server's
  }
  throw Error(ErrorCode::kInvalidArgument,
              str_cat("[ps] got request ", static_cast<uint32_t>(call->request().kind), " from ",
                      call->worker(), ", which is not a worker"));
}

void Shard::join(const std::string& worker) {
  clocks_.join(worker);
  gone_.erase(worker);
}

/// The first worker brings the values, if it has them; the others wait for them.
void Shard::create(const CallPtr& call) {
  join(call->worker());
  taken_.erase(call->worker());  // it may have been started anew
  filled_ = filled_ || fills_itself();
  if (!filled_ && call->request().flag) {
    waiting_.push_back(call);
    return;
  }
  answer(call, {.flag = !filled_});
}

/// Again it would undo the pushes that came between.
void Shard::fill_once(const CallPtr& call) {
  const Request& request = call->request();
  STRATA_CHECK(request.step >= 0 && request.step <= kLastVersion, kInvalidArgument, "[ps] table '",
               spec_.name, "': got values of version ", request.step, " from ", call->worker(),
               "; expected 0 to ", kLastVersion);
  Taken& last = taken_[call->worker()];
  if (request.sequence != 0 && request.sequence <= last.sequence) {
    ++repeated_;
    return answer(call);
  }
  join(call->worker());
  last = {.sequence = request.sequence};
  fill(*call);
  if (request.slot == 0) version_ = request.step;
  filled_ = true;
  answer(call);
  release_waiting();
}

bool Shard::may_pull(const TableCall& call) const {
  if (!filled_) return false;
  if (call.request().kind == RequestKind::kCreate) return true;
  const ConsistencyOptions& consistency = spec_.consistency;
  if (consistency.kind != Consistency::kBounded) return true;
  return clocks_.lead(call.worker()) <= consistency.staleness;
}

void Shard::pull(const CallPtr& call) {
  join(call->worker());
  if (!may_pull(*call)) {
    waiting_.push_back(call);
    return;
  }
  begin_step(*call);
  answer_with_values(call);
}

void Shard::begin_step(const TableCall& call) {
  most_lead_ = std::max(most_lead_, clocks_.lead(call.worker()));
}

void Shard::inspect_in_place(TableCall& call) const {
  size_t first = 0;
  for (size_t part = 0; part < call.data_sizes().size(); ++part) {
    inspect(call, first, call.data(part), call.data_sizes()[part]);
    first += call.data_sizes()[part];
  }
}

void Shard::inspect(TableCall& call, size_t first, const std::byte* data, size_t bytes) const {
  const RequestKind kind = call.request().kind;
  if (call.not_finite || (kind != RequestKind::kPush && kind != RequestKind::kPushRows)) return;
  const bool is_double = spec_.dtype == c10::ScalarType::Double;
  const PushEncoding encoding = call.request().encoding;
  const size_t element =
      is_double ? bytes_of_element<double>(encoding) : bytes_of_element<float>(encoding);
  const auto size = static_cast<int64_t>(bytes / element);
  const int64_t bad = is_double ? find_not_finite<double>(data, encoding, size)
                                : find_not_finite<float>(data, encoding, size);
  if (bad < size) call.not_finite = static_cast<int64_t>(first / element) + bad;
}

void Shard::push(const CallPtr& call) {
  const Request& request = call->request();
  STRATA_CHECK(filled_, kFailedPrecondition, "[ps] table '", spec_.name, "': got a push from ",
               call->worker(), " before its values");
  check(*call);
  Taken& last = taken_[call->worker()];
  if (request.sequence != 0 && request.sequence <= last.sequence) return push_again(call, last);
  if (spec_.consistency.kind == Consistency::kSynchronous) return push_in_step(call);
  const Taken before = std::exchange(last, {.sequence = request.sequence});
  clocks_.tick(call->worker());
  try {
    update({call});
  } catch (...) {  // nothing was applied: the push may come again
    clocks_.untick(call->worker());
    taken_[call->worker()] = before;
    throw;
  }
  if (!request.flag || may_pull(*call)) {
    answer(call);
  } else {  // its values have to wait for the others
    waiting_.push_back(call);
  }
  release_waiting();
}

/// Its worker has not heard the answer to a push that was taken.
void Shard::push_again(const CallPtr& call, const Taken& last) {
  ++repeated_;
  join(call->worker());
  const auto waiting = step_.find(call->worker());
  if (waiting != step_.end()) {  // the same gradients: there is no answer yet
    waiting->second = call;
  } else if (!call->request().flag) {
    answer(call, {.flag = last.dropped});
  } else if (may_pull(*call)) {
    begin_step(*call);
    answer_with_values(call, {.flag = last.dropped});
  } else {
    waiting_.push_back(call);
  }
}

/// Who is lost is not waited for; who has not come yet is.
size_t Shard::pushes_a_step() const {
  const int all = spec_.consistency.workers;
  const int there = all - static_cast<int>(gone_.size());
  return static_cast<size_t>(std::max(1, std::min(all - spec_.consistency.backups, there)));
}

void Shard::push_in_step(const CallPtr& call) {
  STRATA_CHECK(call->request().step <= step_number_, kFailedPrecondition, "[ps] table '",
               spec_.name, "': got a push of step ", call->request().step, " from ", call->worker(),
               "; this server is in step ", step_number_);
  join(call->worker());
  Taken& last = taken_[call->worker()];
  last = {.sequence = call->request().sequence};
  if (call->request().step < step_number_) {
    last.dropped = true;
    ++dropped_;
    Reply reply{.flag = true};
    if (call->request().flag) return answer_with_values(call, std::move(reply));
    return answer(call, std::move(reply));
  }
  step_[call->worker()] = call;
  if (step_.size() >= pushes_a_step()) end_step();
}

void Shard::end_step() {
  std::vector<CallPtr> pushes;
  for (const auto& [worker, push] : step_) pushes.push_back(push);
  step_.clear();
  ++step_number_;
  for (const CallPtr& push : pushes) clocks_.tick(push->worker());
  try {
    update(pushes);
  } catch (...) {
    return fail_step(pushes, Status::from_current_exception());
  }
  for (const CallPtr& push : pushes) answer(push);
  release_waiting();
}

/// Nothing was applied: every worker of the step hears why, and the step may be made again.
void Shard::fail_step(const std::vector<CallPtr>& pushes, const Status& status) {
  --step_number_;
  for (const CallPtr& push : pushes) {
    clocks_.untick(push->worker());
    taken_.erase(push->worker());
    ++rejected_;
    answer_failed(push, status);
  }
}

void Shard::update(const std::vector<CallPtr>& pushes) {
  const Request& first = pushes[0]->request();
  double weight = 0;
  std::vector<const TableCall*> calls;
  std::vector<TableCall*> answered;
  for (const CallPtr& push : pushes) {
    weight += push->request().weight;
    calls.push_back(push.get());
    if (push->request().flag && may_pull(*push)) {
      begin_step(*push);
      answered.push_back(push.get());
    }
  }
  const double scalar_state =
      rule_->carried_name().empty() ? carried_ : rule_->next_scalar_state(carried_, version_);
  apply(calls,
        {.step = rule_->prepare({.learning_rate = first.learning_rate,
                                 .iteration = version_,
                                 .scalar_state = scalar_state}),
         .scale = first.scale / (weight > 0 ? weight : 1),
         .weight_decay = first.weight_decay,
         .clip_value = first.clip_value},
        answered);
  carried_ = scalar_state;
  ++version_;
  pushes_ += static_cast<int64_t>(pushes.size());
}

void Shard::answer(const CallPtr& call, Reply reply) {
  reply.version = version_;
  reply.step = step_number_;
  reply.same_core = call->in_place() && call->is_on_this_core();
  call->reply(std::move(reply));
  done_(call);
}

void Shard::answer_with_values(const CallPtr& call, Reply reply) {
  send_values(*call);
  answer(call, std::move(reply));
}

void Shard::release_waiting() {
  std::vector<CallPtr> waiting = std::move(waiting_);
  waiting_.clear();
  for (CallPtr& call : waiting) {
    if (!may_pull(*call)) {
      waiting_.push_back(std::move(call));
    } else if (call->request().kind == RequestKind::kCreate) {
      answer(call);
    } else {
      begin_step(*call);
      answer_with_values(call);
    }
  }
}

void Shard::leave(const std::string& worker) {
  if (clocks_.leave(worker)) gone_.insert(worker);
  std::erase_if(waiting_, [&](const CallPtr& call) { return call->worker() == worker; });
  if (step_.erase(worker) > 0) taken_.erase(worker);  // should it come again, it counts
  if (!step_.empty() && step_.size() >= pushes_a_step()) end_step();
  release_waiting();
}

void Shard::keep_only(const std::set<std::string>& there) {
  for (const std::string& worker : clocks_.workers()) {
    if (!there.contains(worker)) leave(worker);
  }
}

void Shard::give_up(const std::string& why) {
  given_up_ = why;
  std::vector<CallPtr> open = std::exchange(waiting_, {});
  for (const auto& [worker, push] : std::exchange(step_, {})) open.push_back(push);
  for (const CallPtr& call : open) answer(call, {.code = ErrorCode::kUnavailable, .text = why});
}

Json Shard::counters() const {
  Json json = Json::object();
  json.set("version", version_);
  json.set("pushes", pushes_);
  json.set("dropped", dropped_);
  json.set("rejected", rejected_);
  json.set("repeated", repeated_);
  json.set("most_lead", most_lead_);
  json.set("workers", static_cast<int64_t>(clocks_.size()));
  return json;
}

}  // namespace strata::ps
