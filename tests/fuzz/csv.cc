// CSV files, with columns of every type or as a matrix. The first bytes choose the options.
#include "strata/data/csv.h"

#include "fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace strata::data;
  strata::fuzz::Input input(data, size);
  const uint8_t choice = input.byte();
  const std::string path = strata::fuzz::file_of(input.rest());
  const char delim = (choice & 1) != 0 ? ';' : ',';
  // Behind an error the iterator goes on with the next record; two errors are enough.
  const auto read = [](const Dataset& dataset, size_t most) {
    Iterator iterator = dataset.iterator(0);
    bool more = true;
    int errors = 0;
    for (size_t records = 0; more && records < most && errors < 2; ++records) {
      errors += strata::fuzz::takes([&] { more = iterator.next().has_value(); }) ? 0 : 1;
    }
    strata::fuzz::expect(!more || errors == 2, "a file has no more records than bytes");
  };
  (void)strata::fuzz::takes([&] {
    if ((choice & 16) == 0) {
      read(csv({path},
               {CsvColumn::int32(), CsvColumn::int64(7), CsvColumn::float32(),
                CsvColumn::float64(1), CsvColumn::string("none")},
               {.header = (choice & 2) != 0,
                .field_delim = delim,
                .na_value = "NA",
                .use_quote_delim = (choice & 4) != 0,
                .compression = Compression::kNone,
                .buffer_size = 64}),
           2 * size + 4);
    } else {
      read(csv_matrix({path}, {.label_column = (choice & 8) != 0 ? 0 : -1,
                               .header = (choice & 2) != 0,
                               .field_delim = delim,
                               .na_value = "NA",
                               .default_value = 0.0f,
                               .compression = Compression::kNone}),
           2 * size + 4);
    }
  });
  return 0;
}
