#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "core/thread.h"
#include "ps/tables/mailbox.h"
#include "strata/core/error.h"

namespace strata::ps {

/// The thread that takes one worker's requests from its mailbox. Two workers' are worked on at the
/// same time up to their tables, each on the core that its worker leaves.
class MailboxServer {
 public:
  /// @param serve  Called with each request.
  /// @param failed  Called with what `serve` threw, or that there was no message; then it ends.
  MailboxServer(std::shared_ptr<Mailbox> mailbox,
                std::function<void(const std::string& request)> serve,
                std::function<void(const Status& why)> failed);
  /// Waits for the request that it serves.
  ~MailboxServer();
  MailboxServer(const MailboxServer&) = delete;
  MailboxServer& operator=(const MailboxServer&) = delete;

  /// Whether a request has been taken since the last call: a sign of life.
  bool took_request() { return took_request_.exchange(false); }

 private:
  const std::shared_ptr<Mailbox> mailbox_;
  std::atomic<bool> took_request_{false};
  Thread thread_;
};

}  // namespace strata::ps
