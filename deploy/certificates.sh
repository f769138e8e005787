#!/bin/sh
# Make the TLS credentials that scheduler, workers and clients of one cluster share: ca.pem, cert.pem and key.pem in DIR.
#
#   certificates.sh DIR [DAYS]
#
# Dask accepts every peer whose certificate the authority in ca.pem has signed, so this makes an authority for this one
# cluster and throws its key away: nobody can sign another one. To renew, remove the three files, run this again and
# restart the cluster. Files that exist are left alone, so that it can run before every start.
set -eu

[ $# -ge 1 ] || { echo "usage: certificates.sh DIR [DAYS]" >&2; exit 2; }
directory=$1
days=${2:-365}

umask 077
mkdir -p "$directory"
found=0
for name in ca.pem cert.pem key.pem; do
    if [ -e "$directory/$name" ]; then found=$((found + 1)); fi
done
if [ "$found" -eq 3 ]; then
    openssl verify -CAfile "$directory/ca.pem" "$directory/cert.pem" >&2 && exit 0
    echo "certificates.sh: $directory/cert.pem is not valid (expired?); remove the three files and run this again" >&2
    exit 1
elif [ "$found" -ne 0 ]; then
    echo "certificates.sh: $directory holds only some of ca.pem, cert.pem, key.pem; remove them and run this again" >&2
    exit 1
fi

# In a folder of its own beside the result: what is half made never looks like credentials.
making=$(mktemp -d "$directory/making.XXXXXX")
trap 'rm -rf "$making"' EXIT

cat >"$making/openssl.cnf" <<'END'
[req]
distinguished_name = name
prompt = no
[name]
CN = svmsieve
[authority]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[member]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth, clientAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
END

openssl ecparam -name prime256v1 -genkey -noout -out "$making/authority-key.pem"
openssl req -x509 -new -sha256 -config "$making/openssl.cnf" -extensions authority -subj "/CN=svmsieve authority" \
    -days "$days" -key "$making/authority-key.pem" -out "$making/ca.pem"
openssl ecparam -name prime256v1 -genkey -noout -out "$making/key.pem"
openssl req -new -sha256 -config "$making/openssl.cnf" -key "$making/key.pem" -out "$making/request.pem"
openssl x509 -req -sha256 -extfile "$making/openssl.cnf" -extensions member -days "$days" -in "$making/request.pem" \
    -CA "$making/ca.pem" -CAkey "$making/authority-key.pem" -set_serial "0x$(openssl rand -hex 16)" \
    -out "$making/cert.pem" 2>"$making/log" || { cat "$making/log" >&2; exit 1; }
openssl verify -CAfile "$making/ca.pem" "$making/cert.pem" >"$making/log"

mv "$making/ca.pem" "$making/cert.pem" "$making/key.pem" "$directory/"
