package org.resurge.phone;

import android.content.Context;
import android.location.Location;
import android.location.LocationListener;
import android.location.LocationManager;
import android.location.LocationRequest;
import android.os.Build;
import android.os.Bundle;
import android.os.Looper;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;

/**
 * Takes positions without calling Python for each, and without Python having to know every form of the callback:
 * since Android 12 the system calls the one that takes a list, and a proxy that lacks it gets no position at all.
 *
 * One provider is asked: the system's fused one where it has one (Android 12 and later; it is Android's own, not that of
 * Play services), otherwise GPS, otherwise the network's. Asking all of them mixes fixes of 5 m and 2 km.
 */
public final class PositionRing implements LocationListener {
    /** In the order in which they are preferred; Python names them by their place. */
    private static final String[] PROVIDERS = {"fused", "gps", "network"};

    private static final int COLUMNS = 6;

    private final int capacity;
    private final long[] stamps;
    private final double[] values;
    private final byte[] providers;
    private int head = 0;
    private int count = 0;
    private long overrun = 0;
    private String asked = "";

    public PositionRing(int capacity) {
        this.capacity = capacity;
        this.stamps = new long[capacity];
        this.values = new double[capacity * COLUMNS];
        this.providers = new byte[capacity];
    }

    /** Ask for positions; the provider's name, or empty when this phone has none. A missing permission throws. */
    public String start(Context context, long everyMs, long collectMs) {
        LocationManager manager = (LocationManager) context.getSystemService(Context.LOCATION_SERVICE);
        List<String> there = manager.getAllProviders();
        asked = "";
        for (String provider : PROVIDERS) {
            boolean ours = !provider.equals("fused") || Build.VERSION.SDK_INT >= 31;
            if (asked.isEmpty() && ours && there.contains(provider)) {
                asked = provider;
            }
        }
        if (asked.isEmpty()) {
            return asked;
        }
        if (Build.VERSION.SDK_INT >= 31) {
            LocationRequest request =
                    new LocationRequest.Builder(everyMs)
                            .setQuality(LocationRequest.QUALITY_HIGH_ACCURACY)
                            .setMaxUpdateDelayMillis(collectMs)
                            .build();
            manager.requestLocationUpdates(asked, request, context.getMainExecutor(), this);
        } else {
            manager.requestLocationUpdates(asked, everyMs, 0f, this, Looper.getMainLooper());
        }
        return asked;
    }

    public void stop(Context context) {
        ((LocationManager) context.getSystemService(Context.LOCATION_SERVICE)).removeUpdates(this);
    }

    /** Whether a person switched the provider off, or all of location. */
    public boolean off(Context context) {
        LocationManager manager = (LocationManager) context.getSystemService(Context.LOCATION_SERVICE);
        return !asked.isEmpty() && !manager.isProviderEnabled(asked);
    }

    @Override
    public void onLocationChanged(List<Location> locations) {
        for (Location location : locations) {
            add(location);
        }
        Wakes.tell(); // the processor is awake now; the node takes what came before it sleeps again
    }

    @Override
    public void onLocationChanged(Location location) {
        add(location);
        Wakes.tell();
    }

    private synchronized void add(Location location) {
        stamps[head] = location.getElapsedRealtimeNanos();
        int at = head * COLUMNS;
        values[at] = location.getLatitude();
        values[at + 1] = location.getLongitude();
        values[at + 2] = location.hasAltitude() ? location.getAltitude() : Double.NaN;
        values[at + 3] = location.hasAccuracy() ? location.getAccuracy() : Double.NaN;
        values[at + 4] = location.hasSpeed() ? location.getSpeed() : Double.NaN;
        values[at + 5] = location.hasBearing() ? location.getBearing() : Double.NaN;
        providers[head] = place(location.getProvider());
        head = (head + 1) % capacity;
        if (count < capacity) {
            count++;
        } else {
            overrun++;
        }
    }

    private static byte place(String provider) {
        for (byte i = 0; i < PROVIDERS.length; i++) {
            if (PROVIDERS[i].equals(provider)) {
                return i;
            }
        }
        return (byte) PROVIDERS.length;
    }

    // Phones before Android 11 call these and have no default for them.
    @Override
    public void onProviderEnabled(String provider) {}

    @Override
    public void onProviderDisabled(String provider) {}

    @Override
    public void onStatusChanged(String provider, int status, Bundle extras) {}

    /** Everything since the last call, oldest first: a little-endian long, six doubles and a byte for each fix. */
    public synchronized byte[] drain() {
        ByteBuffer out = ByteBuffer.allocate(count * (8 + 8 * COLUMNS + 1)).order(ByteOrder.LITTLE_ENDIAN);
        int at = (head - count + capacity) % capacity;
        for (int i = 0; i < count; i++) {
            out.putLong(stamps[at]);
            for (int column = 0; column < COLUMNS; column++) {
                out.putDouble(values[at * COLUMNS + column]);
            }
            out.put(providers[at]);
            at = (at + 1) % capacity;
        }
        count = 0;
        return out.array();
    }

    /** Fixes that were overwritten since the ring was made. */
    public synchronized long overrun() {
        return overrun;
    }
}
