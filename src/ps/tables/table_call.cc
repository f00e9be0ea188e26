#include "ps/tables/table_call.h"

#include <algorithm>

#include "ps/tables/message_blocks.h"
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
  if (data_.size() != bytes) answer_ = pool.take(bytes);
  room_ = data_.size() == bytes ? data_.data() : answer_.data();
  answered_ = 0;
  return room_;
}

void TableCall::send(size_t bytes) {
  sends_.push_back(connection_->send(tag(), {room_ + answered_, bytes}));
  answered_ += bytes;
}

void TableCall::reply(Reply reply) {
  reply.id = request_.id;
  try {
    connection_->send_message(kTableChannel, encode(reply));
  } catch (const Error& error) {  // the worker is gone: the server will notice
    STRATA_VLOG(4) << "[ps] no answer to " << worker_ << ": " << error.what();
  }
}

bool TableCall::sent() const {
  return std::ranges::all_of(sends_, [](const wire::Transfer& each) { return each.done(); });
}

}  // namespace strata::ps
