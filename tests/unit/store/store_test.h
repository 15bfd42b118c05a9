// A folder for the files of a test, and rows that need no file.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tools/chainio/store/source.h"

namespace chainio::store {

class StoreTest : public testing::Test {
  protected:
    StoreTest() {
        std::string name = testing::TempDir() + "chainio-store-XXXXXX";
        folder_ = mkdtemp(name.data());
    }
    ~StoreTest() override { std::filesystem::remove_all(folder_); }
    std::string path(const std::string& name) const { return (folder_ / name).string(); }
    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary) << text;
        return path(name);
    }
    std::string read(const std::string& name) const {
        std::ifstream in(path(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
    }

  private:
    std::filesystem::path folder_;
};

class Rows : public Source {
  public:
    struct Made {
        std::string key, value;
        std::uint32_t flags = 0;
    };
    explicit Rows(std::vector<Made> rows) : rows_(std::move(rows)) {}
    std::expected<bool, Problem> next(Row& row) override {
        if (at_ == rows_.size()) return false;
        row = {rows_[at_].key, rows_[at_].value, rows_[at_].flags, at_ + 1};
        at_++;
        return true;
    }
    std::string place(std::uint64_t number) const override { return "row " + std::to_string(number); }

  private:
    std::vector<Made> rows_;
    std::size_t at_ = 0;
};

}  // namespace chainio::store
