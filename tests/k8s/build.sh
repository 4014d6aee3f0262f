#!/bin/bash
# Builds Kubernetes 1.20.2 from Debian bookworm's own source package, which carries every dependency it has, and unpacks what
# a node needs beside it. No Docker, and no downloads but Debian's.
#
#   build.sh      once: about ten minutes of CPU, 3 GB while it builds, 400 MB afterwards; a moment when it is there already
#
# It goes to $K8S_TEST_HOME, or else to everwhen/kubernetes-1.20.2 in the user's cache folder:
#
#   bin/     kube-apiserver, kube-controller-manager, kube-scheduler, kubelet
#   root/    etcd, containerd, runc, CNI plug-ins and a static busybox: unpacked, not installed
#   done     written last: without it the next call goes on where this one stopped
#
# 1.20 is the last release whose server Debian has in source. It has Jobs, deadlines, TTL after finish and RBAC; it has no
# suspended or indexed Jobs, no podFailurePolicy, and drops fields that it does not know.
set -euo pipefail
VERSION=1.20.2
HOME_OF_KUBERNETES=${K8S_TEST_HOME:-${XDG_CACHE_HOME:-$HOME/.cache}/everwhen/kubernetes-$VERSION}
BINARIES="kube-apiserver kube-controller-manager kube-scheduler kubelet"
COMPILER="golang-1.19-go golang-1.19-src rsync libpopt0 libxxhash0"
NODE="etcd-server containerd runc libseccomp2 containernetworking-plugins busybox-static"

mkdir -p "$HOME_OF_KUBERNETES"
cd "$HOME_OF_KUBERNETES"
exec 9> lock
flock 9 # two builds at once would write over each other
[ ! -e done ] || exit 0
echo "building Kubernetes $VERSION in $PWD, once; it takes a while (see build.log)" >&2

# A source entry for bookworm beside the machine's own, at the mirror that the machine uses.
mkdir -p apt/lists/partial apt/parts packages root bin build
MIRROR=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security | sort -u | head -1)
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
printf 'Types: deb-src deb\nURIs: %s\nSuites: bookworm\nComponents: main\nSigned-By: %s\n' "$MIRROR" "$KEYRING" > apt/bookworm.sources
apt_of_ours() {
  apt-get -qq -o Dir::Etc::sourcelist="$HOME_OF_KUBERNETES/apt/bookworm.sources" -o Dir::Etc::sourceparts="$HOME_OF_KUBERNETES/apt/parts" \
    -o Dir::State::lists="$HOME_OF_KUBERNETES/apt/lists" -o APT::Sandbox::User=root "$@"
}
apt_of_ours update
(cd packages && apt_of_ours download $COMPILER $NODE && apt_of_ours source --download-only kubernetes)
for package in $COMPILER $NODE; do
  case " $NODE " in *" $package "*) into=root ;; *) into=build ;; esac
  dpkg -x packages/"$package"_*.deb "$into"
done

SOURCE=build/kubernetes-$VERSION
if [ ! -e build/patched ]; then
  rm -rf "$SOURCE" build/debian
  tar xzf packages/kubernetes_*.orig.tar.gz -C build
  tar xJf packages/kubernetes_*.debian.tar.xz -C build
  for patch in build/debian/patches/*.patch; do patch -d "$SOURCE" -p1 -s < "$patch"; done
  mkdir -p "$SOURCE/.go/src/k8s.io"
  ln -sfn ../../.. "$SOURCE/.go/src/k8s.io/kubernetes"
  touch build/patched
fi
cat > build/version <<VERSIONS
KUBE_GIT_COMMIT='faecb196815e248d3ecfb03c680a4507229c2a56'
KUBE_GIT_TREE_STATE='archive'
KUBE_GIT_VERSION='v$VERSION'
KUBE_GIT_MAJOR='1'
KUBE_GIT_MINOR='20'
VERSIONS
TOOLS=$HOME_OF_KUBERNETES/build/usr
# Without what talks to clouds and to Docker, it is a tenth less to compile. The tags come last in GOFLAGS: Kubernetes' own
# scripts cut them out of it up to the next hyphen.
nice -n 5 env -C "$SOURCE" GOPATH="$HOME_OF_KUBERNETES/$SOURCE/.go" PATH="$TOOLS/lib/go-1.19/bin:$TOOLS/bin:$PATH" \
  LD_LIBRARY_PATH="$TOOLS/lib/x86_64-linux-gnu" HOME="$HOME_OF_KUBERNETES/build" CGO_ENABLED=0 GOFLAGS="-mod=vendor -tags=providerless,dockerless" \
  GOPROXY=off GOMAXPROCS=2 KUBE_GIT_VERSION_FILE="$HOME_OF_KUBERNETES/build/version" \
  make WHAT="$(printf 'cmd/%s ' $BINARIES)" > build.log 2>&1 || { tail -20 build.log >&2; exit 1; }
for binary in $BINARIES; do cp "$SOURCE"/_output/local/bin/linux/*/"$binary" bin/; done
rm -rf build packages apt
touch done
