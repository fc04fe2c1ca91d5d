#!/usr/bin/env bash
# Certificates for a cluster over TLS: certificates.sh FOLDER; then source FOLDER/environment on every machine.
# Whoever holds the key can run code on the workers: the folder is readable by its owner alone.
set -euo pipefail
umask 077
folder="$(mkdir -p "${1:?certificates.sh FOLDER}" && cd "$1" && pwd)"
cd "$folder"
openssl req -x509 -newkey rsa:3072 -nodes -days 365 -subj "/CN=pdevae authority" -keyout ca-key.pem -out ca.pem 2>/dev/null
openssl req -newkey rsa:3072 -nodes -subj "/CN=pdevae" -keyout key.pem -out request.pem 2>/dev/null
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 365 -out cert.pem 2>/dev/null
rm request.pem
{
    echo "export DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION=true"
    echo "export DASK_DISTRIBUTED__COMM__DEFAULT_SCHEME=tls"
    echo "export DASK_DISTRIBUTED__COMM__TLS__CA_FILE='$folder/ca.pem'"
    for role in SCHEDULER WORKER CLIENT; do
        echo "export DASK_DISTRIBUTED__COMM__TLS__${role}__CERT='$folder/cert.pem'"
        echo "export DASK_DISTRIBUTED__COMM__TLS__${role}__KEY='$folder/key.pem'"
    done
} >environment
echo "made; on every machine: source $folder/environment"
