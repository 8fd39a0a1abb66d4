# For a tap; a release fills in the checksums. On Linux only, as nothing else runs the command.
class Histeqd < Formula
  desc "Contrast enhancement for folders of pictures, on CPUs and GPUs"
  homepage "https://code.example/histeqd/histeqd"
  version "0.1.0"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  on_intel do
    url "https://code.example/histeqd/histeqd/releases/download/v0.1.0/histeqd-0.1.0-x86_64-unknown-linux-gnu.tar.gz"
    sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  end
  on_arm do
    url "https://code.example/histeqd/histeqd/releases/download/v0.1.0/histeqd-0.1.0-aarch64-unknown-linux-gnu.tar.gz"
    sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  end

  def install
    bin.install "bin/histeqd"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/histeqd"
    zsh_completion.install "share/zsh/site-functions/_histeqd"
    fish_completion.install "share/fish/vendor_completions.d/histeqd.fish"
    doc.install Dir["share/doc/histeqd/*"]
  end

  test do
    (testpath/"in.pgm").write "P2\n2 1\n255\n10 20\n"
    system bin/"histeqd", "in.pgm", "--out", "out.pgm", "--devices", "cpu"
    assert_path_exists testpath/"out.pgm"
  end
end
