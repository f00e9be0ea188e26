#include "core/gpu_absence.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "support/made_host.h"

namespace strata {
namespace {

using test::MadeHost;

TEST(CudaDriverTest, SaysWhatTheGpusAre) {
  const CudaDriver driver = CudaDriver::ask(STRATA_FAKE_CUDA_DRIVER);
  ASSERT_EQ(driver.gpus.size(), 2U) << driver.problem;
  EXPECT_TRUE(driver.found);
  EXPECT_EQ(driver.cuda_version, 13020);
  EXPECT_EQ(driver.gpus[1].name, "NVIDIA Two");
  EXPECT_EQ(driver.gpus[1].address, "0000:3b:00.0");  // as Linux writes it
  EXPECT_EQ(driver.gpus[1].uuid, "GPU-00112233-4455-6677-8899-aabbccddee08");
  EXPECT_EQ(driver.gpus[0].memory, int64_t{80} << 30);
  EXPECT_EQ(driver.gpus[0].major, 9);
}

TEST(CudaDriverTest, QuotesTheDriversError) {
  ::setenv("FAKE_CUDA_ERROR", "100", 1);
  const CudaDriver none = CudaDriver::ask(STRATA_FAKE_CUDA_DRIVER);
  ::setenv("FAKE_CUDA_ERROR", "999", 1);
  const CudaDriver unknown = CudaDriver::ask(STRATA_FAKE_CUDA_DRIVER);
  ::unsetenv("FAKE_CUDA_ERROR");
  EXPECT_TRUE(none.found);
  EXPECT_TRUE(none.gpus.empty());
  EXPECT_EQ(none.problem, "cuInit: no CUDA-capable device is detected (error 100)");
  EXPECT_EQ(unknown.problem, "cuInit: unknown (error 999)");
}

TEST(CudaDriverTest, ALibraryThatIsNotThereOrAnotherOne) {
  const CudaDriver missing = CudaDriver::ask("libno-such-driver.so.1");
  EXPECT_FALSE(missing.found);
  EXPECT_NE(missing.problem.find("libno-such-driver.so.1"), std::string::npos) << missing.problem;
  const CudaDriver other = CudaDriver::ask("libc.so.6");
  EXPECT_TRUE(other.gpus.empty());
  EXPECT_EQ(other.problem, "libcuda has no cuInit");
}

void add_gpu(MadeHost& host, bool driver) { host.add_gpu("0000:3b:00.0", {.driver = driver}); }

// What the message must say, from what is missing.
void expect_why(const GpuSupport& support, const std::string& begin, const std::string& how) {
  const std::string why = why_no_gpu(support);
  EXPECT_EQ(why.substr(0, begin.size()), begin);
  EXPECT_NE(why.find(how), std::string::npos) << why;
}

TEST(WhyNoGpuTest, NamesTheFirstThatIsMissing) {
  MadeHost made;
  GpuSupport support{.cuda_libtorch = false, .visible = {}, .host = {}, .driver = {}};
  expect_why(support, "this libtorch is built for CPUs alone", "make build PRESET=cuda");
  support.cuda_libtorch = true;
  expect_why(support,
             "this machine has no NVIDIA GPU: none is on its PCI bus, and NVIDIA's driver is not "
             "installed",
             "; run it where there is one");
  add_gpu(made, /*driver=*/false);
  support.host = HostTopology::read(made.root());
  support.driver.problem = "libcuda.so.1: cannot open shared object file";
  expect_why(support,
             "NVIDIA's driver is missing, and this machine has a GPU (PCI 0000:3b:00.0): "
             "libcuda.so.1: cannot open",
             "; install the driver");
  support.driver.found = true;
  support.visible = "-1";
  expect_why(support, "CUDA_VISIBLE_DEVICES='-1' hides every GPU", "; unset it");
  support.visible = "5";
  support.driver.problem = "cuInit: no CUDA-capable device is detected (error 100)";
  expect_why(support,
             "NVIDIA's driver shows no GPU (cuInit: no CUDA-capable device is detected (error "
             "100); CUDA_VISIBLE_DEVICES='5')",
             "check nvidia-smi");
  support.visible.reset();
  support.driver = CudaDriver::ask(STRATA_FAKE_CUDA_DRIVER);
  expect_why(support, "NVIDIA's driver runs CUDA 13.2 at most", "; install a newer driver");
}

TEST(WhyNoGpuTest, ADriverWithoutACard) {
  GpuSupport support{.cuda_libtorch = true, .visible = {}, .host = {}, .driver = {}};
  support.driver.found = true;
  EXPECT_EQ(why_no_gpu(support),
            "this machine has no NVIDIA GPU: none is on its PCI bus; run it where there is one (a "
            "container: with the GPUs handed to it)");
}

}  // namespace
}  // namespace strata
