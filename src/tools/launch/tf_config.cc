#include "tools/launch/tf_config.h"

#include "strata/core/json.h"

namespace strata::tools {

std::string tf_config(const cluster::ClusterSpec& spec, const cluster::TaskId& task) {
  return Json::object()
      .set("cluster", spec.to_json())
      .set("task", Json::object().set("type", task.job).set("index", task.index))
      .dump();
}

}  // namespace strata::tools
