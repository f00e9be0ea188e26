#include "strata/ps/row_table.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ps/tables/gradient_values.h"
#include "ps/tables/pushing.h"
#include "ps/tables/row_ids.h"
#include "ps/tables/server_calls.h"
#include "strata/core/error.h"

namespace strata::ps {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const T* from, int64_t count, size_t element) {
  return {reinterpret_cast<const std::byte*>(from), static_cast<size_t>(count) * element};
}

std::span<int64_t> elements_of(const at::Tensor& ids) {
  return {ids.mutable_data_ptr<int64_t>(), static_cast<size_t>(ids.numel())};
}

std::byte* row_of(const at::Tensor& tensor, int64_t row) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr()) +
         static_cast<size_t>(row * tensor.stride(0)) * tensor.element_size();
}

}  // namespace

at::Tensor PulledRows::gather() const {
  std::vector<int64_t> shape = inverse.sizes().vec();
  shape.push_back(values.size(1));
  return at::index_select(values, 0, inverse.flatten()).view(shape);
}

RowTable::RowTable(TableSpec spec, std::shared_ptr<ServerCalls> calls)
    : spec_(std::move(spec)),
      calls_(std::move(calls)),
      versions_(static_cast<size_t>(calls_->num_servers())),
      steps_(versions_.size()) {}

PulledRows RowTable::pull(const at::Tensor& ids) {
  STRATA_CHECK(ids.defined() && ids.scalar_type() == at::kLong && ids.device().is_cpu(),
               kInvalidArgument, "[ps] pull of table '", spec_.name,
               "': expected ids of int64 on the CPU, got ",
               ids.defined() ? ids.toString() : std::string("an undefined tensor"));
  PulledRows rows;
  rows.inverse = at::empty(ids.sizes(), at::kLong);
  const at::Tensor asked = ids.contiguous();
  RowIds found;
  try {
    found =
        find_rows(elements_of(asked), spec_.rows, calls_->num_servers(), elements_of(rows.inverse));
  } catch (const Error& error) {
    throw Error(error.code(), str_cat("[ps] pull of table '", spec_.name, "': ", error.what()));
  }
  const auto count = static_cast<int64_t>(found.rows.size());
  rows.ids = calls_->memory().make_tensor({count}, at::kLong);
  std::ranges::copy(found.rows, rows.ids.mutable_data_ptr<int64_t>());
  rows.values = calls_->memory().make_tensor({count, spec_.width}, spec_.dtype);
  rows.begins = std::move(found.begins);
  std::vector<ServerCalls::Exchange> exchanges;
  for (int server = 0; server < calls_->num_servers(); ++server) {
    const int64_t begin = rows.begins[static_cast<size_t>(server)];
    const int64_t size = rows.begins[static_cast<size_t>(server) + 1] - begin;
    exchanges.push_back(
        {.server = server,
         .request = {.kind = RequestKind::kPullRows,
                     .table = spec_.name,
                     .rows = static_cast<uint64_t>(size)},
         .out = {bytes_of(rows.ids.const_data_ptr<int64_t>() + begin, size, sizeof(int64_t))},
         .in = {{row_of(rows.values, begin),
                 static_cast<size_t>(size * spec_.width) * rows.values.element_size()}}});
  }
  const std::vector<Reply> replies =
      calls_->run(std::move(exchanges), str_cat("pull of table '", spec_.name, "'"));
  take_replies(replies, versions_, steps_);
  return rows;
}

PushResult RowTable::push(const PulledRows& rows, const at::Tensor& gradients,
                          const PushOptions& options) {
  STRATA_CHECK(gradients.defined() && gradients.sizes() == rows.values.sizes() &&
                   gradients.scalar_type() == spec_.dtype && gradients.device().is_cpu(),
               kInvalidArgument, "[ps] push to table '", spec_.name, "': got ",
               gradients.defined() ? str_cat(gradients.toString(), " of shape ", gradients.sizes())
                                   : "an undefined tensor",
               "; expected ", rows.values.toString(), " of shape ", rows.values.sizes());
  const at::Tensor dense = calls_->memory().within_reach(gradients.contiguous());
  Request request = push_request(RequestKind::kPushRows, spec_.name, options, ++pushes_);
  BufferPool::Buffer encoded;
  auto bits = bytes_of(static_cast<const std::byte*>(dense.const_data_ptr()), dense.numel(),
                       dense.element_size());
  if (request.encoding != PushEncoding::kFull) {
    encoded = calls_->memory().pool().take(static_cast<size_t>(dense.numel()) * 2);
    if (spec_.dtype == at::kDouble) {
      encode_gradients(dense.const_data_ptr<double>(), request.encoding, dense.numel(),
                       encoded.data());
    } else {
      encode_gradients(dense.const_data_ptr<float>(), request.encoding, dense.numel(),
                       encoded.data());
    }
    bits = {encoded.data(), encoded.size()};
  }
  const size_t row_bytes = rows.ids.numel() == 0 ? 0 : bits.size() / rows.ids.numel();
  std::vector<ServerCalls::Exchange> exchanges;
  for (int server = 0; server < calls_->num_servers(); ++server) {
    const int64_t begin = rows.begins[static_cast<size_t>(server)];
    const int64_t size = rows.begins[static_cast<size_t>(server) + 1] - begin;
    const auto part =
        bits.subspan(static_cast<size_t>(begin) * row_bytes, static_cast<size_t>(size) * row_bytes);
    request.step = steps_[static_cast<size_t>(server)];
    request.rows = static_cast<uint64_t>(size);
    request.data_bytes = part.size();
    exchanges.push_back(
        {.server = server,
         .request = request,
         .out = {bytes_of(rows.ids.const_data_ptr<int64_t>() + begin, size, sizeof(int64_t)),
                 part}});
  }
  const std::vector<Reply> replies =
      calls_->run(std::move(exchanges), str_cat("push to table '", spec_.name, "'"));
  return take_replies(replies, versions_, steps_);
}

int64_t RowTable::rows_of(int server) const {
  return (spec_.rows - server + calls_->num_servers() - 1) / calls_->num_servers();
}

at::Tensor RowTable::read() { return read_all(0); }
at::Tensor RowTable::read_slot(int slot) { return read_all(slot + 1); }

at::Tensor RowTable::read_all(int64_t slot) {
  const int servers = calls_->num_servers();
  const at::TensorOptions options = at::TensorOptions().dtype(spec_.dtype);
  std::vector<at::Tensor> parts;
  std::vector<ServerCalls::Exchange> exchanges;
  for (int server = 0; server < servers; ++server) {
    parts.push_back(at::empty({rows_of(server), spec_.width}, options));
    exchanges.push_back({.server = server,
                         .request = {.kind = RequestKind::kRead, .table = spec_.name, .slot = slot},
                         .in = {{row_of(parts.back(), 0), parts.back().nbytes()}}});
  }
  calls_->run(std::move(exchanges), str_cat("read of table '", spec_.name, "'"));
  if (servers == 1) return parts[0];
  at::Tensor whole = at::empty({spec_.rows, spec_.width}, options);
  for (int server = 0; server < servers; ++server) {
    whole.slice(0, server, std::nullopt, servers).copy_(parts[static_cast<size_t>(server)]);
  }
  return whole;
}

void RowTable::write(const at::Tensor& values, int64_t version) { write_all(values, 0, version); }
void RowTable::write_slot(int slot, const at::Tensor& values) { write_all(values, slot + 1, 0); }

void RowTable::write_all(const at::Tensor& values, int64_t slot, int64_t version) {
  const int servers = calls_->num_servers();
  STRATA_CHECK(values.defined() && values.sizes() == at::IntArrayRef({spec_.rows, spec_.width}) &&
                   values.scalar_type() == spec_.dtype && values.device().is_cpu(),
               kInvalidArgument, "[ps] write of table '", spec_.name, "': expected ", spec_.rows,
               " rows of ", spec_.width, " of ", c10::toString(spec_.dtype), " on the CPU");
  ++pushes_;
  std::vector<at::Tensor> parts;
  std::vector<ServerCalls::Exchange> exchanges;
  for (int server = 0; server < servers; ++server) {
    parts.push_back(values.slice(0, server, std::nullopt, servers).contiguous());
    exchanges.push_back({.server = server,
                         .request = {.kind = RequestKind::kFill,
                                     .table = spec_.name,
                                     .slot = slot,
                                     .data_bytes = parts.back().nbytes(),
                                     .step = version,
                                     .sequence = pushes_},
                         .out = {{row_of(parts.back(), 0), parts.back().nbytes()}}});
  }
  calls_->run(std::move(exchanges), str_cat("write of table '", spec_.name, "'"));
  if (slot == 0) std::ranges::fill(versions_, version);
}

int64_t RowTable::version() const { return *std::ranges::min_element(versions_); }

std::vector<TableCounters> RowTable::counters() { return calls_->counters(spec_.name); }

}  // namespace strata::ps
