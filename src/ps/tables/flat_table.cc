#include "ps/tables/flat_table.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "ps/tables/gradient_values.h"
#include "ps/tables/pushing.h"
#include "ps/tables/server_calls.h"
#include "strata/core/error.h"

namespace strata::ps {
namespace {

size_t bytes_of(int64_t elements, const at::Tensor& like) {
  return static_cast<size_t>(elements) * like.element_size();
}

std::byte* data_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

void encode_part(const at::Tensor& gradients, const TablePart& part, PushEncoding encoding,
                 std::byte* to) {
  const int64_t size = part.end - part.begin;
  if (gradients.scalar_type() == at::kDouble) {
    encode_gradients(gradients.const_data_ptr<double>() + part.begin, encoding, size, to);
  } else {
    encode_gradients(gradients.const_data_ptr<float>() + part.begin, encoding, size, to);
  }
}

}  // namespace

FlatTable::FlatTable(TableSpec spec, std::shared_ptr<ServerCalls> calls)
    : spec_(std::move(spec)),
      calls_(std::move(calls)),
      parts_(static_cast<size_t>(calls_->num_servers())),
      versions_(parts_.size()),
      steps_(parts_.size()) {
  for (const TablePart& part : spec_.parts) {
    parts_[static_cast<size_t>(part.server)].push_back(part);
  }
}

void FlatTable::check(const at::Tensor& tensor, const char* call) const {
  STRATA_CHECK(tensor.defined() && tensor.device().is_cpu() && tensor.is_contiguous() &&
                   tensor.scalar_type() == spec_.dtype && tensor.numel() == elements(),
               kInvalidArgument, "[ps] ", call, " of table '", spec_.name, "': got ",
               tensor.defined() ? str_cat(tensor.toString(), " of shape ", tensor.sizes())
                                : "an undefined tensor",
               "; expected ", elements(), " contiguous elements of ", c10::toString(spec_.dtype),
               " on the CPU");
}

void FlatTable::pull(const at::Tensor& values) { read_into(values, 0, /*waits=*/true); }
void FlatTable::read(const at::Tensor& values) { read_into(values, 0, /*waits=*/false); }

void FlatTable::read_into(const at::Tensor& values, int64_t slot, bool waits) {
  check(values, "pull");
  std::vector<ServerCalls::Exchange> exchanges;
  for (size_t server = 0; server < parts_.size(); ++server) {
    ServerCalls::Exchange exchange{
        .server = static_cast<int>(server),
        .request = {.kind = waits ? RequestKind::kPull : RequestKind::kRead,
                    .table = spec_.name,
                    .slot = slot}};
    for (const TablePart& part : parts_[server]) {
      exchange.in.emplace_back(data_of(values) + bytes_of(part.begin, values),
                               bytes_of(part.end - part.begin, values));
    }
    exchanges.push_back(std::move(exchange));
  }
  const std::vector<Reply> replies =
      calls_->run(std::move(exchanges), str_cat("pull of table '", spec_.name, "'"));
  if (slot != 0) return;
  take_replies(replies, versions_, steps_);
}

PushResult FlatTable::push(const at::Tensor& gradients, const PushOptions& options) {
  return push(gradients, nullptr, options);
}

PushResult FlatTable::push_pull(const at::Tensor& gradients, const at::Tensor& values,
                                const PushOptions& options) {
  check(values, "push_pull");
  return push(gradients, &values, options);
}

void FlatTable::begin_push_pull(const at::Tensor& gradients, const at::Tensor& values,
                                const PushOptions& options) {
  check(values, "push_pull");
  Push push = make_push(gradients, &values, options);
  round_ = calls_->begin(std::move(push.exchanges), push_name());
  encoded_ = std::move(push.encoded);
}

PushResult FlatTable::finish_push_pull() {
  const std::vector<Reply> replies = calls_->finish(round_);
  encoded_.clear();
  return take_push_replies(replies);
}

std::string FlatTable::push_name() const { return str_cat("push to table '", spec_.name, "'"); }

PushResult FlatTable::push(const at::Tensor& gradients, const at::Tensor* values,
                           const PushOptions& options) {
  Push push = make_push(gradients, values, options);
  return take_push_replies(calls_->run(std::move(push.exchanges), push_name()));
}

PushResult FlatTable::take_push_replies(const std::vector<Reply>& replies) {
  reads_on_this_core_ = std::ranges::all_of(replies, &Reply::same_core);
  return take_replies(replies, versions_, steps_);
}

FlatTable::Push FlatTable::make_push(const at::Tensor& gradients, const at::Tensor* values,
                                     const PushOptions& options) {
  check(gradients, "push");
  Request request = push_request(RequestKind::kPush, spec_.name, options, ++pushes_);
  request.flag = values != nullptr;
  const bool whole = request.encoding == PushEncoding::kFull;
  Push push;
  for (size_t server = 0; server < parts_.size(); ++server) {
    request.step = steps_[server];
    request.data_bytes = 0;
    ServerCalls::Exchange exchange{.server = static_cast<int>(server)};
    for (const TablePart& part : parts_[server]) {
      const int64_t size = part.end - part.begin;
      if (values != nullptr) {
        exchange.in.emplace_back(data_of(*values) + bytes_of(part.begin, *values),
                                 bytes_of(size, *values));
      }
      if (whole) {
        exchange.out.emplace_back(data_of(gradients) + bytes_of(part.begin, gradients),
                                  bytes_of(size, gradients));
      } else {
        BufferPool::Buffer& encoded =
            push.encoded.emplace_back(calls_->memory().pool().take(static_cast<size_t>(size) * 2));
        encode_part(gradients, part, request.encoding, encoded.data());
        exchange.out.emplace_back(encoded.data(), encoded.size());
      }
      request.data_bytes += exchange.out.back().size();
    }
    exchange.request = request;
    push.exchanges.push_back(std::move(exchange));
  }
  return push;
}

int64_t FlatTable::version() const { return *std::ranges::min_element(versions_); }

at::Tensor FlatTable::read_slot(int slot) {
  at::Tensor values = at::empty({elements()}, at::TensorOptions().dtype(spec_.dtype));
  read_into(values, slot + 1, /*waits=*/false);
  return values;
}

void FlatTable::write(const at::Tensor& values, int64_t version) { write_from(values, 0, version); }
void FlatTable::write_slot(int slot, const at::Tensor& values) { write_from(values, slot + 1, 0); }

void FlatTable::write_from(const at::Tensor& values, int64_t slot, int64_t version) {
  check(values, "write");
  ++pushes_;
  std::vector<ServerCalls::Exchange> exchanges;
  for (size_t server = 0; server < parts_.size(); ++server) {
    ServerCalls::Exchange exchange{.server = static_cast<int>(server),
                                   .request = {.kind = RequestKind::kFill,
                                               .table = spec_.name,
                                               .slot = slot,
                                               .step = version,
                                               .sequence = pushes_}};
    for (const TablePart& part : parts_[server]) {
      exchange.out.emplace_back(data_of(values) + bytes_of(part.begin, values),
                                bytes_of(part.end - part.begin, values));
      exchange.request.data_bytes += exchange.out.back().size();
    }
    exchanges.push_back(std::move(exchange));
  }
  calls_->run(std::move(exchanges), str_cat("write of table '", spec_.name, "'"));
  if (slot == 0) std::ranges::fill(versions_, version);
}

std::vector<TableCounters> FlatTable::counters() { return calls_->counters(spec_.name); }

}  // namespace strata::ps
