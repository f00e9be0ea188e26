#include "ps/tables/mailbox_server.h"

#include <chrono>
#include <utility>

namespace strata::ps {
namespace {

/// Whether to stop is looked at so often.
constexpr std::chrono::milliseconds kStopLook{50};

}  // namespace

MailboxServer::MailboxServer(std::shared_ptr<Mailbox> mailbox,
                             std::function<void(const std::string& request)> serve,
                             std::function<void(const Status& why)> failed)
    : mailbox_(std::move(mailbox)),
      thread_("ps-mailbox", [this, serve = std::move(serve),
                             failed = std::move(failed)](const std::stop_token& stop) {
        try {
          while (!stop.stop_requested()) {
            mailbox_->request.wait(kStopLook);
            const auto request = mailbox_->request.take();
            if (!request) continue;
            took_request_.store(true, std::memory_order_relaxed);
            serve(*request);
          }
        } catch (...) {
          failed(Status::from_current_exception());
        }
      }) {}

MailboxServer::~MailboxServer() {
  thread_.request_stop();
  mailbox_->request.interrupt();
  thread_.join();
}

}  // namespace strata::ps
