#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "ps/buffer_pool.h"
#include "ps/request.h"
#include "strata/wire/connection.h"

namespace strata::ps {

/// A request that a server works on: first its data arrive, then a shard does it, then the answer
/// goes out. One thread at a time has it.
class Call {
 public:
  Call(Request request, std::shared_ptr<wire::Connection> connection, std::string worker)
      : request_(std::move(request)),
        connection_(std::move(connection)),
        worker_(std::move(worker)) {}

  const Request& request() const { return request_; }
  /// Who asks: "/job:worker/task:1".
  const std::string& worker() const { return worker_; }
  const std::shared_ptr<wire::Connection>& connection() const { return connection_; }

  /// Starts to receive the numbers of rows and the data that the request says will follow.
  /// @param contiguous  The bytes of each contiguous part of the data.
  void receive(BufferPool& pool, const std::vector<size_t>& contiguous);
  bool has_come() const;
  /// @throws Error  What came was not that, or the worker is gone. Once it has come.
  void check_received() const;

  const std::byte* data() const { return data_.data(); }
  const int64_t* rows() const { return reinterpret_cast<const int64_t*>(rows_.data()); }

  /// Memory for the answer's data, `bytes` in all, which `send` sends from the front on.
  std::byte* make_room(BufferPool& pool, size_t bytes);
  void send(size_t bytes);
  /// The answer; the data stand before it.
  void reply(Reply reply);
  /// All of the answer has gone out, or never will.
  bool sent() const;

 private:
  wire::Tag tag() const { return {.channel = kDataChannel, .id = request_.id}; }

  const Request request_;
  const std::shared_ptr<wire::Connection> connection_;
  const std::string worker_;
  BufferPool::Buffer rows_;
  BufferPool::Buffer data_;
  BufferPool::Buffer answer_;
  size_t answered_ = 0;                   // bytes of it that `send` has begun to send
  std::vector<wire::Transfer> receives_;  // behind the buffers, which they use
  std::vector<wire::Transfer> sends_;
};

}  // namespace strata::ps
