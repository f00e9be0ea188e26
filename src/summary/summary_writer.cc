#include "strata/summary/summary_writer.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/host_effect.h"
#include "core/seconds.h"
#include "core/sha256.h"
#include "strata/core/error.h"
#include "strata/core/file_system.h"
#include "strata/summary/recording.h"
#include "summary/event_file_name.h"
#include "summary/event_proto.h"
#include "summary/event_queue.h"
#include "summary/histogram.h"

namespace strata::summary {
namespace {

int64_t big_endian(std::string_view bytes) {
  int64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

// A PNG file starts with its signature, then the chunk IHDR: size, name, width, height.
void check_png(std::string_view png, size_t index, int64_t width, int64_t height) {
  constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", 16);
  STRATA_CHECK(png.starts_with(kSignature) && png.size() >= 24, kInvalidArgument,
               "[summary] image: got image ", index, " of ", png.size(),
               " bytes that are no PNG file; expected one (data::encode_png)");
  const int64_t w = big_endian(png.substr(16, 4)), h = big_endian(png.substr(20, 4));
  STRATA_CHECK(w == width && h == height, kInvalidArgument, "[summary] image: got image ", index,
               " of ", w, " x ", h, " pixels; expected width x height = ", width, " x ", height);
}

std::string histogram_tensor(const std::vector<HistogramBucket>& buckets) {
  std::vector<double> rows;
  rows.reserve(3 * buckets.size());
  for (const HistogramBucket& b : buckets) rows.insert(rows.end(), {b.left, b.right, b.count});
  return detail::double_tensor(rows, static_cast<int64_t>(buckets.size()), 3);
}

// A year: longer ones would overflow a deadline.
std::chrono::milliseconds bounded(std::chrono::milliseconds time) {
  return std::min(time, std::chrono::milliseconds(std::chrono::hours(24 * 365)));
}

}  // namespace

class SummaryWriter::Impl {
 public:
  Impl(const std::string& logdir, const SummaryWriterOptions& options)
      : wall_time(options.wall_time ? options.wall_time : strata::detail::unix_time),
        path(detail::new_event_file_path(logdir, static_cast<int64_t>(std::floor(wall_time())),
                                         options.filename_suffix)),
        queue(file_system_of(path).create(path), path,
              {.max_events = options.max_queue,
               .max_bytes = options.max_queue_bytes,
               .interval = bounded(options.flush_millis),
               .timeout = bounded(options.timeout)}) {
    queue.add("create_file_writer", detail::version_event(std::floor(wall_time())));
  }

  const std::function<double()> wall_time;
  const std::string path;
  detail::EventQueue queue;
};

SummaryWriter create_file_writer(const std::string& logdir, const SummaryWriterOptions& options) {
  STRATA_CHECK(options.max_queue > 0 && options.max_queue_bytes > 0, kInvalidArgument,
               "[summary] create_file_writer: got max_queue ", options.max_queue,
               " and max_queue_bytes ", options.max_queue_bytes, "; expected at least 1");
  STRATA_CHECK(options.flush_millis.count() > 0 && options.timeout.count() > 0, kInvalidArgument,
               "[summary] create_file_writer: got flush_millis ", options.flush_millis.count(),
               " and timeout ", options.timeout.count(), " ms; expected at least 1");
  STRATA_CHECK(options.filename_suffix.find('/') == std::string::npos, kInvalidArgument,
               "[summary] create_file_writer: got filename_suffix ", options.filename_suffix,
               "; expected no '/'");
  file_system_of(logdir).make_folders(logdir);
  return SummaryWriter(std::make_unique<SummaryWriter::Impl>(logdir, options));
}

SummaryWriter::SummaryWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SummaryWriter::~SummaryWriter() = default;
SummaryWriter::SummaryWriter(SummaryWriter&&) noexcept = default;
SummaryWriter& SummaryWriter::operator=(SummaryWriter&&) noexcept = default;

SummaryWriter::Impl& SummaryWriter::open(const char* call) const {
  STRATA_CHECK(impl_, kFailedPrecondition, "[summary] ", call,
               ": got a writer that was moved from; expected one that is open");
  return *impl_;
}

void SummaryWriter::add(const char* call, std::string_view tag, std::string value, int64_t step) {
  strata::detail::note_host_effect("a summary is written");
  Impl& impl = open(call);
  STRATA_CHECK(!tag.empty(), kInvalidArgument, "[summary] ", call,
               ": got an empty tag; expected a name");
  if (!should_record_summaries()) return;
  impl.queue.add(call, detail::summary_event(impl.wall_time(), step, value));
}

void SummaryWriter::scalar(std::string_view tag, double value, int64_t step) {
  add("scalar", tag, detail::value(tag, detail::float_tensor(static_cast<float>(value)), "scalars"),
      step);
}

void SummaryWriter::histogram(std::string_view tag, std::span<const double> numbers, int64_t step,
                              int64_t buckets) {
  add("histogram", tag,
      detail::value(tag, histogram_tensor(make_histogram(numbers, buckets)), "histograms"), step);
}
void SummaryWriter::histogram(std::string_view tag, std::span<const float> numbers, int64_t step,
                              int64_t buckets) {
  add("histogram", tag,
      detail::value(tag, histogram_tensor(make_histogram(numbers, buckets)), "histograms"), step);
}

void SummaryWriter::image(std::string_view tag, std::span<const std::string> pngs, int64_t width,
                          int64_t height, int64_t step) {
  std::vector<std::string> strings = {std::to_string(width), std::to_string(height)};
  for (size_t i = 0; i < pngs.size(); ++i) {
    check_png(pngs[i], i, width, height);
    strings.push_back(pngs[i]);
  }
  add("image", tag, detail::value(tag, detail::string_tensor(strings), "images"), step);
}

void SummaryWriter::text(std::string_view tag, std::string_view markdown, int64_t step) {
  add("text", tag, detail::value(tag, detail::string_tensor(markdown), "text"), step);
}
void SummaryWriter::text(std::string_view tag, std::span<const std::string> markdowns,
                         int64_t step) {
  add("text", tag, detail::value(tag, detail::string_tensor(markdowns), "text"), step);
}

void SummaryWriter::hparams(const std::map<std::string, HparamValue>& values,
                            std::string_view trial) {
  const double now = open("hparams").wall_time();
  std::string group(trial);
  if (group.empty()) {
    const std::string bytes = detail::session_start(values, "", 0);
    Sha256 hash;
    hash.update(bytes.data(), bytes.size());
    group = hash.hex_digest();
  }
  constexpr std::string_view kTag = "_hparams_/session_start_info";
  add("hparams", kTag,
      detail::value(kTag, detail::no_tensor(), "hparams",
                    detail::session_start(values, group, now)),
      0);
}

void SummaryWriter::hparams_end(SessionStatus status) {
  const double now = open("hparams_end").wall_time();
  constexpr std::string_view kTag = "_hparams_/session_end_info";
  add("hparams_end", kTag,
      detail::value(kTag, detail::no_tensor(), "hparams", detail::session_end(status, now)), 0);
}

void SummaryWriter::graph(const GraphDef& graph) {
  Impl& impl = open("graph");
  graph.check_inputs();
  if (!should_record_summaries()) return;
  impl.queue.add("graph", detail::graph_event(impl.wall_time(), detail::graph_def(graph)));
}

void SummaryWriter::keras_model(std::string_view json, int64_t step) {
  constexpr std::string_view kTag = "keras";
  constexpr std::string_view kFormat = "1";  // as Keras writes it
  add("keras_model", kTag,
      detail::value(kTag, detail::string_tensor(json), "graph_keras_model", kFormat), step);
}

void SummaryWriter::flush() { open("flush").queue.flush("flush"); }
void SummaryWriter::close() { open("close").queue.close(); }
const std::string& SummaryWriter::path() const { return open("path").path; }

}  // namespace strata::summary
