#include "wire/session/operations.h"

#include "wire/session/session.h"

namespace strata::wire {
namespace {

std::string describe_as(const char* what, size_t size, const Tag& tag, const char* direction,
                        const std::weak_ptr<Session>& session) {
  const auto alive = session.lock();
  return str_cat(what, " of ", size, " bytes (channel ", tag.channel, ", id ", tag.id, ") ",
                 direction, " ", alive == nullptr ? "a closed connection" : alive->name());
}

}  // namespace

std::string SendOperation::describe() const {
  return describe_as("send", size, tag, "to", session_);
}

std::string ReceiveOperation::describe() const {
  return describe_as("receive", size, tag, "from", session_);
}

// A closed session has ended them, or is about to, and touches no buffer any more.
void SendOperation::cancel() {
  if (const auto session = session_.lock()) session->cancel_send(*this);
}

void ReceiveOperation::cancel() {
  if (const auto session = session_.lock()) session->cancel_receive(*this);
}

}  // namespace strata::wire
