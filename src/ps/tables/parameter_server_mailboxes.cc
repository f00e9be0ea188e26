// What a server does for workers of its host that ask it through mailboxes.
#include <system_error>
#include <utility>

#include "ps/tables/parameter_server_impl.h"

namespace strata::ps {

void ParameterServer::Impl::open_mailbox(Worker& worker, const std::shared_ptr<TableCall>& call) {
  try {
    const std::vector<uint64_t>& place = call->request().memory;
    STRATA_CHECK(place.size() == 2 && place[1] % alignof(Mailbox::Memory) == 0, kInvalidArgument,
                 "[ps] got ", place.size() / 2, " places, the first at offset ",
                 place.size() < 2 ? 0 : place[1], ", for the mailbox of ", worker.name,
                 "; expected one, at a multiple of ", alignof(Mailbox::Memory));
    STRATA_CHECK(worker.mailbox == nullptr, kAlreadyExists, "[ps] got a second mailbox of ",
                 worker.name, "; a worker has one");
    const auto mailbox =
        std::make_shared<Mailbox>(worker.memory->at(place[0], place[1], sizeof(Mailbox::Memory)));
    worker.mailbox = std::make_unique<MailboxServer>(
        mailbox,
        [this, &worker, mailbox, follower = strata::detail::CoreFollower()](
            const std::string& bytes) mutable { serve_mailbox(worker, mailbox, follower, bytes); },
        [connection = worker.connection](const Status& why) { connection->fail(why); });
  } catch (const std::system_error&) {
    return call->reply({.flag = false});  // no thread is left: requests come over the connection
  } catch (...) {
    return refuse(call, Status::from_current_exception());
  }
  call->reply({.flag = true});
}

/// Tables with a backup are left out: what changes them is replicated by the serving thread.
void ParameterServer::Impl::note_tables() {
  const MutexLock lock(mailbox_mutex);
  mailbox_pending_limit = pending_limit();
  for (auto& [name, table] : own.by_name) {
    if (!table.shard->spec().backup) mailbox_tables.emplace(name, &table);
  }
}

/// On the mailbox's thread. What does not speak this language costs its worker the connection, as in
/// `take_requests`; `advance` then sees it.
void ParameterServer::Impl::serve_mailbox(Worker& worker, const std::shared_ptr<Mailbox>& mailbox,
                                          strata::detail::CoreFollower& follower,
                                          const std::string& bytes) {
  const auto call =
      std::make_shared<TableCall>(decode_request(bytes), worker.connection, worker.name, mailbox);
  const Request& request = call->request();
  if (request.waits) follower.follow(request.core);
  try {
    check_permitted(*call);
    Table* table = nullptr;
    uint64_t limit = 0;
    {
      const MutexLock lock(mailbox_mutex);
      const auto found = mailbox_tables.find(request.table);
      if (found != mailbox_tables.end()) table = found->second;
      limit = mailbox_pending_limit;
    }
    STRATA_CHECK(table != nullptr && !request.memory.empty() && request.worker.empty() &&
                     request.on_behalf_of == 0 && request.kind != RequestKind::kCreate,
                 kInvalidArgument, "[ps] got request ", static_cast<uint32_t>(request.kind), " of ",
                 worker.name, " in its mailbox, for the table '", request.table,
                 "'; expected one for a table without a backup, whose data are in shared memory");
    Shard* const shard = table->shard.get();
    take_data(worker, *call, *shard, limit);
    // The answer wakes the worker, which takes this core: the table must not wait for that until
    // this thread gets the core again.
    table->executor->run_in_turn([&] {
      call->keep_reply();
      shard->run(call);
      call->stop_keeping_reply();  // a later one comes from another thread
    });
    call->send_kept_reply();
  } catch (...) {
    refuse(call, Status::from_current_exception());
  }
}

}  // namespace strata::ps
