#include "strata/keras/callbacks/csv_logger.h"

#include <span>

#include "core/atomic_file.h"
#include "keras/callbacks/python_text.h"
#include "keras/training/training_run.h"
#include "runtime/group_agreement.h"

namespace strata::callbacks {
namespace {

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos;) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

CSVLogger::CSVLogger(std::string path, const CSVLoggerOptions& options)
    : path_(std::move(path)), options_(options) {
  STRATA_CHECK(!options_.separator.empty(), kInvalidArgument,
               "[callbacks] CSVLogger: got an empty separator");
}

void CSVLogger::on_train_begin() {
  names_.clear();
  // What it says is part of the run's state, which all workers have.
  text_ = strata::detail::broadcast_from_chief(run().model()->strategy().group(), "CSVLogger", [&] {
    const bool goes_on = options_.append && file_system_of(path_).info(path_);
    return goes_on ? read_file(path_) : std::string();
  });
}

void CSVLogger::on_epoch_end(int64_t epoch, keras::Logs& logs) {
  if (names_.empty()) {
    bool validation = false;
    std::string of_validation;
    for (const auto& [name, value] : logs.values()) {
      names_ += (names_.empty() ? "" : options_.separator) + name;
      of_validation += options_.separator + "val_" + name;
      validation = validation || name.starts_with("val_");
    }
    if (!validation) names_ += of_validation;  // a later epoch may have them
    if (text_.empty()) text_ = "epoch" + options_.separator + names_ + "\r\n";
  }
  text_ += std::to_string(epoch);
  for (const std::string& name : split(names_, options_.separator)) {
    const auto value = logs.find(name);
    text_ += options_.separator + (value ? detail::python_text(*value) : "NA");
  }
  text_ += "\r\n";
  strata::detail::run_on_chief(run().model()->strategy().group(), "CSVLogger", [&] {
    strata::detail::write_atomically(path_, path_ + ".tmp", [&](WritableFile& file) {
      file.append(std::as_bytes(std::span(text_)));
    });
  });
}

std::vector<std::pair<std::string, Tracked>> CSVLogger::state() {
  return {{"text", text_}, {"names", names_}};
}

}  // namespace strata::callbacks
