#include "tools/study/study_report.h"

#include <algorithm>
#include <cstdio>

#include "strata/core/str_cat.h"

namespace strata::tools {
namespace {

std::string printed(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string servers_text(const Measurement& m) {
  if (m.server_bytes.empty()) return "";
  const auto [least, most] = std::ranges::minmax(m.server_bytes);
  return str_cat(printed("%.2f", static_cast<double>(least) / 1e6), " to ",
                 printed("%.2f", static_cast<double>(most) / 1e6), " MB a server");
}

}  // namespace

std::string study_table(const std::vector<StudyPoint>& points) {
  std::string text;
  const StudyPoint* before = nullptr;
  for (const StudyPoint& point : points) {
    const Measurement& m = point.measurement;
    const Configuration& c = m.configuration;
    if (before == nullptr || !same_series(*before, point)) {
      text += str_cat(text.empty() ? "" : "\n", c.network, ", ", word_of(c.strategy));
      if (c.strategy == StudyStrategy::kParameterServer) {
        text += str_cat(" (", word_of(c.placement), c.synchronous ? "" : ", asynchronous", ")");
      }
      text += str_cat(", ", c.batch, " images of ", c.image_size, " x ", c.image_size,
                      " a replica, ", c.dtype, ", ", c.data, "\n", m.processor, ", ", m.cores,
                      m.cores == 1 ? " core" : " cores", ", ", m.parameters, " parameters\n",
                      "  replicas servers     images/s (least to most)   speedup efficiency\n");
    }
    before = &point;
    const Spread rate = spread_of(m.images_per_second);
    char line[160];
    std::snprintf(line, sizeof line, "  %8d %7s %12.2f (%.2f to %.2f)  %8s %9s%s\n", c.replicas,
                  c.servers > 0 ? str_cat(c.servers, point.best ? "*" : "").c_str() : "-",
                  rate.median, rate.low, rate.high,
                  point.speedup ? printed("%.2f", *point.speedup).c_str() : "-",
                  point.efficiency ? printed("%.1f %%", 100 * *point.efficiency).c_str() : "-",
                  c.threads * c.replicas > m.cores ? "  more threads than cores" : "");
    text += line;
    if (!point.best) continue;
    const auto ms = [](double seconds) { return printed("%.2f", 1e3 * seconds); };
    text += str_cat("           step ", ms(m.step_seconds()), " ms, of which input ",
                    ms(m.input_seconds), "\n");
    if (m.parts) {
      text += str_cat("           as written: forward ", ms(m.parts->forward), ", backward ",
                      ms(m.parts->backward), ", exposed communication ", ms(m.parts->communication),
                      ", update ", ms(m.parts->update), " ms\n");
    }
    if (!m.server_bytes.empty()) text += str_cat("           ", servers_text(m), "\n");
    if (point.synthetic_rate) {
      text += str_cat("           synthetic ", printed("%.2f", *point.synthetic_rate),
                      " images/s: real images cost ", printed("%.1f %%", 100 * *point.input_loss()),
                      "\n");
    }
    if (point.vs_limit) {
      text +=
          str_cat("           ", printed("%.3f", point.vs_limit->median),
                  " of two processes that share nothing (", printed("%.3f", point.vs_limit->low),
                  " to ", printed("%.3f", point.vs_limit->high), ")\n");
    }
    if (point.tensorflow) {
      const BesideTensorflow& beside = *point.tensorflow;
      text += str_cat("           ", printed("%.2f", beside.quotient.median), " of TensorFlow ",
                      beside.version, " (", printed("%.2f", beside.quotient.low), " to ",
                      printed("%.2f", beside.quotient.high), "), which trains ",
                      printed("%.2f", beside.images_per_second), " images/s\n");
    }
  }
  return text;
}

}  // namespace strata::tools
