<?php
// Install: apt install php-cli php-apcu php-phpseclib3 (or: composer require phpseclib/phpseclib:~3.0, and the extension APCu)
// Start: php -S 127.0.0.1:3000 index.php
declare(strict_types=1);

use phpseclib3\Crypt\EC\Formats\Signature\ASN1;
use phpseclib3\Crypt\PublicKeyLoader;
use phpseclib3\Math\BigInteger;

require is_file(__DIR__ . '/vendor/autoload.php') ? __DIR__ . '/vendor/autoload.php' : 'phpseclib3/autoload.php';

const FRESH_SECONDS = 300;
// Anybody can name an unknown key: it has the list read again, but not more often than this.
const PAUSE_SECONDS = 5;

final class BadStatement extends Exception
{
}

function required(string $name): string
{
    return getenv($name) ?: throw new LogicException("$name is not set");
}

/** The keys of the gate, by their names. APCu shares them between requests. */
function keysOfTheGate(string $kid): array
{
    $list = apcu_fetch('statement_keys') ?: ['read_at' => -INF, 'keys' => []];
    $isDue = !isset($list['keys'][$kid]) || time() - $list['read_at'] > FRESH_SECONDS;
    if ($isDue && apcu_add('statement_keys_read', true, PAUSE_SECONDS)) {
        $context = stream_context_create(['http' => ['timeout' => 5]]);
        // http://GATE/.well-known/holdfast-jwks.json
        $text = file_get_contents(required('STATEMENT_KEYS'), false, $context) ?: throw new RuntimeException('The keys of the gate cannot be read');
        $list = ['read_at' => time(), 'keys' => array_column(json_decode($text, true, 8, JSON_THROW_ON_ERROR)['keys'], null, 'kid')];
        apcu_store('statement_keys', $list);
    }
    return $list['keys'];
}

function decodePart(string $part): string
{
    return base64_decode(strtr($part, '-_', '+/'), true) ?: throw new BadStatement('It is not base64url');
}

function readJson(string $part): array
{
    $value = json_decode(decodePart($part), true);
    return is_array($value) ? $value : throw new BadStatement('It is no JSON object');
}

/** Two issuers may have the same subject for different people, so only both together say who it is. */
function readCaller(string $statement, string $method, string $path): array
{
    $parts = explode('.', $statement);
    if (count($parts) !== 3) {
        throw new BadStatement('It is no JWT');
    }
    ['alg' => $alg, 'kid' => $kid] = readJson($parts[0]) + ['alg' => null, 'kid' => null];
    if ($alg !== 'ES256' || !is_string($kid)) {
        throw new BadStatement('It is not by ES256 and a key with a name');
    }
    $jwk = keysOfTheGate($kid)[$kid] ?? throw new BadStatement('The gate has no such key');
    $key = PublicKeyLoader::load(json_encode($jwk))->withHash('sha256');
    $signature = decodePart($parts[2]);
    if (strlen($signature) !== 64) {
        throw new BadStatement('Its signature is not of ES256');
    }
    // A JWS has both numbers side by side, OpenSSL wants ASN.1.
    [$r, $s] = array_map(fn ($number) => new BigInteger($number, 256), str_split($signature, 32));
    if (!$key->verify("$parts[0].$parts[1]", ASN1::save($r, $s))) {
        throw new BadStatement('Its signature is wrong');
    }

    $claims = readJson($parts[1]) + array_fill_keys(['iss', 'aud', 'exp', 'method', 'path', 'sub_id'], null);
    // PUBLIC_URL of the gate, and gate.upstream
    if ($claims['iss'] !== required('STATEMENT_ISSUER') || $claims['aud'] !== required('STATEMENT_AUDIENCE')) {
        throw new BadStatement('It is of another gate, or for another service');
    }
    if (!is_int($claims['exp']) || $claims['exp'] + 5 <= time()) {
        throw new BadStatement('It has expired');
    }
    if ($claims['method'] !== $method || $claims['path'] !== $path) {
        throw new BadStatement('It is about another request');
    }
    $subject = $claims['sub_id'] ?? throw new BadStatement('It names nobody');
    return ['issuer' => $subject['iss'], 'subject' => $subject['sub']];
}

$method = $_SERVER['REQUEST_METHOD'];
// REQUEST_URI is as it was received; PATH_INFO is decoded.
$path = explode('?', $_SERVER['REQUEST_URI'], 2)[0];
try {
    $caller = readCaller($_SERVER['HTTP_X_AUTH_STATEMENT'] ?? '', $method, $path);
} catch (BadStatement $error) {
    error_log("statement refused: {$error->getMessage()}");
    http_response_code(401);
    exit;
} catch (Throwable $error) {
    // With display_errors, PHP itself would answer 200.
    error_log((string) $error);
    http_response_code(500);
    exit;
}

if (preg_match('#^/orders/([^/]+)$#D', $path, $found) !== 1) {
    http_response_code(404);
    exit;
}
header('Content-Type: application/json');
echo json_encode($caller + ['method' => $method, 'order' => rawurldecode($found[1])]);
