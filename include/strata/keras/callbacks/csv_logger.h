#pragma once

#include <memory>
#include <string>
#include <vector>

#include "strata/core/export.h"
#include "strata/core/file_system.h"
#include "strata/keras/callback.h"

namespace strata::callbacks {

struct CSVLoggerOptions {
  std::string separator = ",";
  bool append = false;  ///< Appends to an existing file; else it is replaced.
};

/// Writes a line of values for each epoch, under a line of names. A resumed run continues after the
/// saved one's last line: later lines are cut off. Source: keras.callbacks.CSVLogger.
class STRATA_API CSVLogger : public Callback {
 public:
  explicit CSVLogger(std::string path, const CSVLoggerOptions& options = {});

  void on_train_begin() override;
  void on_epoch_end(int64_t epoch, keras::Logs& logs) override;
  std::vector<std::pair<std::string, Tracked>> state() override;

 private:
  std::string path_;
  CSVLoggerOptions options_;
  std::string text_;   // the whole file
  std::string names_;  // the column names, joined by the separator
};

}  // namespace strata::callbacks
