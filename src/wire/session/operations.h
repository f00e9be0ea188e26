#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "wire/connection.h"

namespace strata::wire {

class Session;

using detail::Operation;

/// A pending send. Its session's mutex protects all members but the base's.
class SendOperation final : public Operation {
 public:
  SendOperation(std::weak_ptr<Session> session, const Tag& the_tag, const std::byte* the_bytes,
                size_t the_size)
      : tag(the_tag), bytes(the_bytes), size(the_size), session_(std::move(session)) {}

  void cancel() override;
  std::string describe() const override;
  void end(Status status) { finish(std::move(status)); }
  void progressed(size_t so_far) { set_arrived(so_far); }

  const Tag tag;
  SendOperation* next_in_tag_queue = nullptr;
  const std::byte* const bytes;
  const size_t size;
  uint32_t message = 0;  ///< its number; 0: not begun
  size_t queued = 0;     ///< bytes in frames so far, written or not
  size_t written = 0;

 private:
  std::weak_ptr<Session> session_;
};

/// A pending receive.
class ReceiveOperation final : public Operation {
 public:
  ReceiveOperation(std::weak_ptr<Session> session, const Tag& the_tag, std::byte* the_bytes,
                   size_t the_size)
      : tag(the_tag), bytes(the_bytes), size(the_size), session_(std::move(session)) {}

  void cancel() override;
  std::string describe() const override;
  void end(Status status) { finish(std::move(status)); }
  void arrived(size_t so_far) { set_arrived(so_far); }

  const Tag tag;
  ReceiveOperation* next_in_tag_queue = nullptr;
  std::byte* const bytes;
  const size_t size;

 private:
  std::weak_ptr<Session> session_;
};

}  // namespace strata::wire
