// What images of one request may cost the others.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/base64.h"
#include "heed/io.h"
#include "heed/tensor.h"
#include "support/budget.h"
#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;

/// A grey picture, as base64: a few kB, whatever its size.
std::string grey(int64_t height, int64_t width) {
  return encode_base64(encode_png(Tensor::zeros({height, width}, DType::u8)));
}

/// Half a minute of work for a slow machine, within every limit.
json many_images() {
  return {{"model", "vision"}, {"image", std::vector<std::string>(62, grey(1000, 1000))}};
}

bool is_silent(const RawConnection& connection) {
  char byte = 0;
  return recv(connection.descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

TEST(Images, TheImagesOfARequestHaveALimitTogether) {
  const TestServer server({"vision", "captioner"});
  const std::string large = grey(8000, 4000);
  for (const char* path : {"/v1/classify", "/v1/caption"}) {
    const Answer answer =
        server.post(path, {{"image", std::vector<std::string>{large, large, grey(1, 1)}}});
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_EQ(answer.param(), "image") << path;
    EXPECT_NE(answer.body.find("more than 64 million pixels together"), std::string::npos)
        << answer.body;
  }
}

TEST(Images, TextsDoNotWaitForImages) {
  const TestServer server({"lm", "vision"});
  const std::string request = post_request("/v1/classify", many_images().dump());
  bool overtaken = false;
  for (int attempt = 0; attempt < 5 && !overtaken; ++attempt) {
    RawConnection first(server.port()), second(server.port());
    first.send(request);
    second.send(request);
    ASSERT_TRUE(server.metric_becomes("heed_requests_in_flight", 2));
    const json text = {{"model", "lm"}, {"prompt", "the fox"}, {"max_tokens", 1}};
    EXPECT_EQ(server.post("/v1/completions", text).status, 200);
    overtaken = is_silent(first) && is_silent(second);
    first.close();
    second.close();
    EXPECT_TRUE(server.metric_becomes("heed_requests_in_flight", 0));
  }
  EXPECT_TRUE(overtaken);
}

TEST(Images, NoMoreAreDecodedOnceTheClientHasGone) {
  const TestServer server({"vision"});
  const json body = many_images();
  const double whole =
      cpu_seconds([&] { EXPECT_EQ(server.post("/v1/classify", body).status, 200); });
  const double abandoned = cpu_seconds([&] {
    RawConnection client(server.port());
    client.send(post_request("/v1/classify", body.dump()));
    EXPECT_TRUE(server.metric_becomes("heed_requests_in_flight", 1));
    client.close();
    EXPECT_TRUE(server.metric_becomes("heed_requests_in_flight", 0));
  });
  EXPECT_LT(abandoned, whole / 2);
}

}  // namespace
}  // namespace heed::test
