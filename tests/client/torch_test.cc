// Release() with a real libtorch.
#include <gtest/gtest.h>
#include <stageload/torch.h>
#include <torch/torch.h>

#include <cstdint>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>

namespace stageload {
namespace {

// Bytes of this process's anonymous memory.
std::int64_t Footprint() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::int64_t kib = 0;
  while (status >> word) {
    if (word == "RssAnon:") status >> kib;
  }
  return kib * 1024;
}

torch::nn::Sequential Blocks(std::int64_t size) {
  return torch::nn::Sequential(torch::nn::Linear(size, size), torch::nn::BatchNorm1d(size),
                               torch::nn::Linear(size, size));
}

TEST(Release, FreesEveryStorageAndTheFootprintFallsByTheModulesSize) {
  torch::nn::Sequential model;
  for (int i = 0; i < 4; ++i) model->push_back(torch::nn::Linear(4096, 4096));
  for (int i = 0; i < 200; ++i) model->push_back(torch::nn::Linear(256, 256));
  std::int64_t size = 0;
  for (const auto& parameter : model->parameters()) {
    size += parameter.numel() * parameter.element_size();
  }
  const std::int64_t before = Footprint();
  const ReleaseStats stats = Release(*model);
  const std::int64_t fall = before - Footprint();
  std::cout << "the footprint fell by " << fall << " of " << size << " bytes\n";
  EXPECT_EQ(stats.nbytes, size);
  EXPECT_EQ(stats.held, 0);
  if (before > 0) {  // there is a /proc
    EXPECT_NEAR(static_cast<double>(fall), static_cast<double>(size),
                0.05 * static_cast<double>(size));
  }
}

TEST(Release, LeavesEveryHandleOfAParameterEmpty) {
  torch::nn::Linear linear(8, 4);
  const torch::Tensor mine = linear->weight;
  EXPECT_EQ(Release(*linear).nbytes, 4 * (8 * 4 + 4));
  EXPECT_EQ(mine.numel(), 0);
  EXPECT_EQ(linear->bias.numel(), 0);
  EXPECT_ANY_THROW(linear->forward(torch::rand({1, 8})));
  EXPECT_EQ(Release(*linear).nbytes, 0);
}

TEST(Release, CountsSharedStorageOnceAndLeavesWhatIsKept) {
  auto model = Blocks(16);
  auto other = Blocks(16);
  auto first = model->ptr(0)->as<torch::nn::LinearImpl>();
  other->ptr(2)->as<torch::nn::LinearImpl>()->weight.set_data(first->weight.detach());
  ReleaseOptions options;
  options.keep = model->parameters();
  const ReleaseStats stats = Release(*other, options);
  EXPECT_EQ(stats.kept, 4 * 16 * 16);
  EXPECT_EQ(stats.held, 0);
  model->eval();
  EXPECT_EQ(model->forward(torch::rand({2, 16})).numel(), 32);
}

TEST(Release, TellsWhatSomethingElseRefersTo) {
  torch::nn::Linear linear(16, 16);
  const torch::Tensor view = linear->weight.detach();
  const ReleaseStats stats = Release(*linear);
  EXPECT_EQ(stats.held, 4 * 16 * 16);
  EXPECT_EQ(stats.nbytes, 4 * 16);
  EXPECT_EQ(view.numel(), 256);
}

TEST(Release, RefusesASparseTensorBeforeAnythingIsFreed) {
  torch::nn::Linear linear(16, 16);
  linear->register_buffer("mask", torch::eye(16).to_sparse());
  try {
    Release(*linear);
    ADD_FAILURE() << "it stays in memory, and nobody was told";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("mask is Sparse"), std::string::npos) << error.what();
  }
  EXPECT_EQ(linear->weight.numel(), 256);
}

TEST(Release, FreesGradients) {
  torch::nn::Linear linear(16, 16);
  linear->forward(torch::rand({1, 16})).sum().backward();
  EXPECT_EQ(Release(*linear).nbytes, 2 * 4 * (16 * 16 + 16));
}

}  // namespace
}  // namespace stageload
