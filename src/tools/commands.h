#pragma once

#include <string>
#include <vector>

namespace strata::tools {

/// What `strata --version` prints: our version, and that of the libtorch it was built with.
std::string version_text();

/// `strata bench SUITE ...`. @return the exit status.
int bench_main(int argc, char** argv);

/// Becomes strata-bench. @param words  Its name and its arguments.
[[noreturn]] void run_bench_program(std::vector<std::string> words);

/// `strata kernels`. @return the exit status.
int kernels_main(int argc, char** argv);

/// `strata engine`. @return the exit status.
int engine_main(int argc, char** argv);

/// `strata devices`. @return the exit status.
int devices_main(int argc, char** argv);

/// `strata inspect PATH...`. @return the exit status.
int inspect_main(int argc, char** argv);

/// `strata export MODEL FILE`. @return the exit status.
int export_main(int argc, char** argv);

/// `strata predict FOLDER --input FILE`. @return the exit status.
int predict_main(int argc, char** argv);

/// `strata make-records FOLDER PREFIX`. @return the exit status.
int make_records_main(int argc, char** argv);

/// `strata launch -n N -- PROGRAM ...`. @return the exit status.
int launch_main(int argc, char** argv);

/// `strata render slurm|kubernetes|compose ...`. @return the exit status.
int render_main(int argc, char** argv);

/// `strata certs DIR ...`. @return the exit status.
int certs_main(int argc, char** argv);

/// `strata server --listen HOST:PORT`. @return the exit status.
int server_main(int argc, char** argv);

/// `strata simulate`. @return the exit status.
int simulate_main(int argc, char** argv);

/// `strata study`. @return the exit status.
int study_main(int argc, char** argv);

/// `strata new DIR`. @return the exit status.
int new_main(int argc, char** argv);

}  // namespace strata::tools
