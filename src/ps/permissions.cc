#include "ps/permissions.h"

#include <optional>
#include <string_view>

#include "strata/cluster/roles.h"

namespace strata::ps {
namespace {

std::string_view name_of(Action action) {
  switch (action) {
    case Action::kRead:
      return "read tables";
    case Action::kTrain:
      return "train tables";
    case Action::kEndJob:
      return "end the job";
    case Action::kKeepCopies:
      return "bring copies of tables";
    case Action::kCoordinate:
      return "have functions called";
  }
  return "do that";
}

std::optional<cluster::TaskId> parse(const std::string& task) {
  try {
    return cluster::TaskId::parse(task);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

Action action_of(const Request& request) {
  switch (request.kind) {
    case RequestKind::kRead:
    case RequestKind::kCounters:
      return Action::kRead;
    case RequestKind::kLeave:
      return request.flag ? Action::kEndJob : Action::kRead;
    default:
      return Action::kTrain;
  }
}

Status permitted(const cluster::ClusterSpec& spec, const std::string& task, Action action,
                 const cluster::TaskId& coordinator) {
  const std::optional<cluster::TaskId> asks = parse(task);
  const auto refuse = [&](const std::string& who) {
    return Status(ErrorCode::kPermissionDenied,
                  str_cat("got a wish of ", task, " to ", name_of(action), "; expected ", who));
  };
  if (!asks.has_value()) return refuse("the name of a task (/job:worker/task:0)");
  if (action == Action::kCoordinate) {
    return *asks == coordinator ? Status() : refuse(coordinator.to_string());
  }
  if (!spec.has_task(*asks)) return refuse(str_cat("a task of ", spec.to_string()));
  const bool trains = asks->job == cluster::kChief || asks->job == cluster::kWorker;
  switch (action) {
    case Action::kRead:
      return trains || asks->job == cluster::kEvaluator
                 ? Status()
                 : refuse("the chief, a worker or the evaluator");
    case Action::kTrain:
      return trains ? Status() : refuse("the chief or a worker");
    case Action::kEndJob:
      return trains && cluster::is_chief(spec, *asks)
                 ? Status()
                 : refuse("the chief (worker 0 in a cluster without one)");
    case Action::kKeepCopies:
      return asks->job == cluster::kPs ? Status() : refuse("the parameter server before this one");
    case Action::kCoordinate:
      break;
  }
  return {};
}

}  // namespace strata::ps
