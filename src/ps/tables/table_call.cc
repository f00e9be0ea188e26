#include "ps/tables/table_call.h"

#include <algorithm>

#include "ps/tables/message_blocks.h"
#include "ps/tables/standby.h"
#include "strata/core/error.h"
#include "strata/core/log.h"

namespace strata::ps {

void TableCall::receive(BufferPool& pool, const std::vector<size_t>& contiguous) {
  const auto post = [&](BufferPool::Buffer& buffer, const std::vector<size_t>& parts) {
    std::byte* to = buffer.data();
    for (const size_t part : parts) {
      for_each_message(part, [&](size_t offset, size_t bytes) {
        receives_.push_back(connection_->receive(tag(), {to + offset, bytes}));
        sizes_.push_back(&buffer == &data_ ? bytes : 0);
      });
      to += part;
    }
  };
  if (request_.rows > 0) {
    rows_ = pool.take(request_.rows * sizeof(int64_t));
    post(rows_, {rows_.size()});
  }
  if (request_.data_bytes > 0) {
    data_ = pool.take(request_.data_bytes);
    post(data_, contiguous);
  }
}

bool TableCall::take_arrived(const std::function<void(size_t offset, size_t bytes)>& inspect) {
  for (; arrived_ < receives_.size() && receives_[arrived_].done(); ++arrived_) {
    const size_t bytes = sizes_[arrived_];
    if (bytes == 0) continue;
    if (receives_[arrived_].status().ok()) inspect(inspected_, bytes);
    inspected_ += bytes;
  }
  return arrived_ == receives_.size();
}

void TableCall::check_received() const {
  for (const wire::Transfer& transfer : receives_) transfer.status().throw_if_error();
}

std::byte* TableCall::make_room(BufferPool& pool, size_t bytes) {
  const bool over_the_data = data_.size() == bytes && standby_ == nullptr;
  if (!over_the_data) answer_ = pool.take(bytes);
  room_ = over_the_data ? data_.data() : answer_.data();
  answered_ = 0;
  return room_;
}

void TableCall::send(size_t bytes) {
  sends_.push_back(connection_->send(tag(), {room_ + answered_, bytes}));
  answered_ += bytes;
}

void TableCall::reply(Reply reply) {
  if (!request_.worker.empty()) return;  // that server answers
  reply.id = request_.id;
  if (standby_ != nullptr) {
    standby_->pass(connection_, std::move(reply));
  } else {
    send_reply(*connection_, reply);
  }
}

bool TableCall::sent() const {
  return std::ranges::all_of(sends_, [](const wire::Transfer& each) { return each.done(); });
}

void send_reply(wire::Connection& to, const Reply& reply) {
  try {
    to.send_message(kTableChannel, encode(reply));
  } catch (const Error& error) {
    STRATA_VLOG(4) << "[ps] no answer to " << to.peer().task << ": " << error.what();
  }
}

}  // namespace strata::ps
