package org.resurge.phone;

import android.app.Notification;
import android.content.Intent;
import android.content.pm.PackageManager;
import android.os.Build;
import android.os.Bundle;
import android.util.Log;
import java.io.File;
import java.io.IOException;
import org.kivy.android.PythonService;

/**
 * python-for-android's service with what it lacks: a notification a person can see and stop it by, a foreground type
 * that fits the permissions at hand, an answer when the system refuses, its own unpacking, and an end.
 *
 * The manifest names two types. Which one is in force is decided whenever the notification is shown: location when
 * positions are read and allowed, otherwise health, which needs only the install-time permission for fast sensors. PythonService itself names
 * no type, so Android would take all of the manifest's and kill the service when a permission for one is missing.
 * Neither type has a time limit and both may start after boot; dataSync has and may not.
 *
 * The end: python-for-android ends the process with Python, before its own stopSelf, and a sticky service whose process
 * ends is started again. So Python calls end() itself, as the last thing it does.
 */
public class RecordingService extends PythonService {
    private static final String TAG = "resurge";
    // ServiceInfo.FOREGROUND_SERVICE_TYPE_LOCATION (API 29) and _HEALTH (API 34), as numbers: the names are newer
    // than the oldest phone we run on.
    private static final int TYPE_LOCATION = 0x8;
    private static final int TYPE_HEALTH = 0x100;

    /** Also named in mobile_app/service/foreground.py: its person lets positions be read. */
    private static final String POSITIONS_FILE = "reads-positions";

    private volatile Runnable stopAsked = null;

    @Override
    public int onStartCommand(Intent intent, int flags, int startId) {
        if (intent != null && Notices.STOP.equals(intent.getAction())) {
            askToStop();
            return startType();
        }
        Notices.clear(this);
        return super.onStartCommand(intent, flags, startId);
    }

    /** What to call, on the main thread, when a person taps "Stop" in the notification. Set by Python. */
    public void onStopAsked(Runnable act) {
        stopAsked = act;
    }

    private void askToStop() {
        Runnable act = stopAsked;
        if (act != null) {
            act.run(); // Python leaves everything durable, then calls end()
        } else {
            end(); // still unpacking or importing: there is nothing to leave behind
        }
    }

    /** The service is over: Android does not start it again. */
    public void end() {
        stopSelf();
    }

    /** As end(), but the reason stays where a person sees it. */
    public void endWith(String title, String text) {
        Notices.stopped(this, title, text);
        stopSelf();
    }

    /** An alert of the gateway. */
    public void ring(int number, String title, String text) {
        Notices.alert(this, number, title, text);
    }

    @Override
    public void run() {
        try {
            Unpacking.unpack(this);
        } catch (IOException | RuntimeException failed) {
            Log.e(TAG, "not unpacked: " + failed);
            endWith("Not recording", "The app could not be unpacked: " + failed.getMessage() + ". Make room, then open it.");
            return;
        }
        super.run();
    }

    @Override
    protected void doStartForeground(Bundle extras) {
        if (!show(extras.getString("contentTitle"), extras.getString("contentText"))) {
            endWith("Not recording", "Android stopped it in the background. Open the app to go on.");
        }
    }

    /** Put this text into the notification, and (again) into the foreground with the best type allowed now. */
    public boolean show(String title, String text) {
        Notification notification = Notices.running(this, title, text);
        if (Build.VERSION.SDK_INT < 29) {
            startForeground(getServiceId(), notification);
            return true;
        }
        boolean allowed =
                granted("android.permission.ACCESS_FINE_LOCATION")
                        || granted("android.permission.ACCESS_COARSE_LOCATION");
        if (allowed && new File(getFilesDir(), POSITIONS_FILE).exists()) {
            try {
                startForeground(getServiceId(), notification, TYPE_LOCATION);
                return true;
            } catch (RuntimeException refused) { // after boot without background location, say
                Log.w(TAG, "no foreground service of type location: " + refused);
            }
        }
        try {
            startForeground(getServiceId(), notification, Build.VERSION.SDK_INT >= 34 ? TYPE_HEALTH : 0);
            return true;
        } catch (RuntimeException refused) { // in the background since Android 12, also after a sticky restart
            Log.e(TAG, "no foreground service: " + refused);
            return false;
        }
    }

    private boolean granted(String permission) {
        return checkSelfPermission(permission) == PackageManager.PERMISSION_GRANTED;
    }

    /** Android 15 ends services whose type has a time limit this way. Ours have none; if that changes, end in order. */
    public void onTimeout(int startId, int type) {
        Log.e(TAG, "the system ended the service: time limit of type " + type);
        endWith("Not recording", "Android ended it after its time limit. Open the app to go on.");
    }
}
